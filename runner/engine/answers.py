"""What a zygote answers, made into an observation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.model.observation import LOCAL, Failed, Observation, Provenance
from runner.model.outcomes import Exercised, Outcome
from runner.model.signature import signature
from runner.places import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.model.cell import Cell

_PLACES = (
    (re.compile(r"(?:/[^/\s\"':]+)+/(?:lib/)?(?=site-packages/|python3\.\d+/)"), ""),
    (re.compile(r"python3\.\d+/(?=site-packages/)"), ""),
    (re.compile(r"(?:/[^/\s\"':]+)+/(?=cases/\w+\.py)"), ""),
    (re.compile(r"(?:/[^/\s\"':]+)+/cells/cell-\w+"), "<cell>"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What all cells of one zygote share."""

    environment_digest: str
    packages: Mapping[str, str]
    python: str
    torch_build: str
    hardware: str
    protocol: int
    run: str
    folder: Path
    """The environment's."""
    foreign_files: bool
    """Whether packages may come from outside the environment, as with `--python`."""


def observe(
    cell: Cell, case_digest: str, answer: Mapping[str, Any], setting: Setting
) -> Observation:
    """Turn an answer into an observation; a cell that imported foreign files is refused."""
    imported = answer.get("imported", {})
    foreign = [] if setting.foreign_files else _foreign(imported, setting.folder.resolve())
    outcome = Outcome.NOT_RUN if foreign else Outcome(answer["outcome"])
    reason = f"refused: {foreign[0]} is no file of the environment" if foreign else ""
    return Observation(
        cell=cell,
        outcome=outcome,
        provenance=_provenance(case_digest, imported, setting),
        source=LOCAL,
        failed=_failed(answer, outcome, setting.folder),
        reason=reason or answer.get("reason", ""),
        exercised=Exercised(answer.get("exercised", "")),
        computed=answer.get("computed", {}),
        measured=answer.get("measured", {}),
        seconds=answer.get("seconds", answer.get("wall")),
        output=answer.get("output", ""),
    )


def _provenance(case_digest: str, imported: Mapping[str, str], setting: Setting) -> Provenance:
    return Provenance(
        case_digest=case_digest,
        environment_digest=setting.environment_digest,
        packages=setting.packages,
        python=setting.python,
        torch_build=setting.torch_build,
        hardware=setting.hardware,
        protocol=setting.protocol,
        run=setting.run,
        imported={name: placeless(file, setting.folder) for name, file in imported.items()},
    )


def _foreign(imported: Mapping[str, str], prefix: Path) -> list[str]:
    return [
        name for name, file in imported.items() if not Path(file).resolve().is_relative_to(prefix)
    ]


def _failed(answer: Mapping[str, Any], outcome: Outcome, folder: Path) -> Failed | None:
    if not (outcome.is_failure or outcome.blames_machine) or "error_class" not in answer:
        return None
    message = placeless(str(answer.get("message", "")), folder)
    return Failed(
        error_class=str(answer["error_class"]),
        message=message,
        signature=signature(str(answer["error_class"]), message),
        traceback=placeless(str(answer.get("traceback", "")), folder),
    )


def placeless(text: str, folder: Path) -> str:
    """Take out where on this machine things lie: environments, interpreters, cells' folders.

    What is known is taken out by its name, since a path may hold spaces; the rest by its shape.
    """
    for known in (folder, folder.resolve()):
        text = text.replace(f"{known}/lib/", "")
    text = text.replace(f"{ROOT}/", "")
    for pattern, replacement in _PLACES:
        text = pattern.sub(replacement, text)
    return text
