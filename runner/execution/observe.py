"""What a worker answers, made into an observation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repromatrix.runner.execution.events import Tree
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import LOCAL, Failed, MemoryUse, Observation, Provenance
from repromatrix.runner.model.outcomes import Exercised, Outcome
from repromatrix.runner.model.signature import signature
from repromatrix.runner.paths import ROOT

_PLACES = (
    (re.compile(r"[^/\s\"':(]*(?:/[^/\s\"':]+)+/(?:lib/)?(?=site-packages/|python3\.\d+/)"), ""),
    (re.compile(r"python3\.\d+/(?=site-packages/)"), ""),
    (re.compile(r"(?:/[^/\s\"':]+)+/(?=cases/\w+\.py)"), ""),
    (re.compile(r"(?:/[^/\s\"':]+)+/cells/cell-\w+"), "<cell>"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSetting:
    """What all cells of one worker share."""

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
    torch: Path | None = None
    """The folder in which torch lies, where it is not the environment's own."""
    tree: Tree | None = None
    """Sources that must have been imported in place of an installed package."""


def observe(
    cell: Cell, case_digest: str, answer: Mapping[str, Any], setting: RunSetting
) -> Observation:
    """Turn an answer into an observation; a cell that imported foreign files is refused."""
    imported = answer.get("imported", {})
    foreign = [] if setting.foreign_files else _foreign(imported, setting)
    outcome = Outcome.NOT_RUN if foreign else Outcome(answer["outcome"])
    memory = _memory(answer)
    reason = f"refused: {foreign[0]} is no file of {_home(foreign[0], setting)}" if foreign else ""
    return Observation(
        cell=cell,
        outcome=outcome,
        provenance=_provenance(case_digest, answer, setting),
        source=LOCAL,
        failed=_failed(answer, outcome, setting),
        reason=reason or answer.get("reason", "") or _limit(outcome, memory),
        exercised=Exercised(answer.get("exercised", "")),
        computed=answer.get("computed", {}),
        measured=answer.get("measured", {}),
        seconds=answer.get("seconds", answer.get("wall")),
        output=answer.get("output", ""),
        memory=memory,
    )


def _memory(answer: Mapping[str, Any]) -> MemoryUse | None:
    if "peak" not in answer:
        return None
    return MemoryUse(peak=answer["peak"], limit=answer["limit"])


def _limit(outcome: Outcome, memory: MemoryUse | None) -> str:
    hit = outcome is Outcome.OUT_OF_MEMORY and memory is not None and memory.is_over
    return f"above our limit of {memory.limit} MiB" if hit and memory else ""


def _provenance(case_digest: str, answer: Mapping[str, Any], setting: RunSetting) -> Provenance:
    imported, claimed = answer.get("imported", {}), answer.get("claimed", {})
    # A tree is known by what it says itself, as it was imported.
    package = setting.tree.package if setting.tree else ""
    told = {package: claimed[package]} if package in claimed else {}
    return Provenance(
        case_digest=case_digest,
        environment_digest=setting.environment_digest,
        packages={**setting.packages, **told},
        python=setting.python,
        torch_build=setting.torch_build,
        hardware=setting.hardware,
        protocol=setting.protocol,
        run=setting.run,
        imported={name: _shown(file, setting) for name, file in imported.items()},
    )


def _foreign(imported: Mapping[str, str], setting: RunSetting) -> list[str]:
    """Return the packages that came from elsewhere than they should have."""
    return [
        name
        for name, file in imported.items()
        if not Path(file).resolve().is_relative_to(_root(name, setting).resolve())
    ]


def _root(package: str, setting: RunSetting) -> Path:
    tree = setting.tree
    if package == "torch" and setting.torch is not None:
        return setting.torch
    return tree.path / package if tree and tree.package == package else setting.folder


def _home(package: str, setting: RunSetting) -> str:
    return "the tree" if setting.tree and setting.tree.package == package else "the environment"


def _failed(answer: Mapping[str, Any], outcome: Outcome, setting: RunSetting) -> Failed | None:
    if not (outcome.is_failure or outcome.blames_machine) or "error_class" not in answer:
        return None
    message = _shown(str(answer.get("message", "")), setting)
    return Failed(
        error_class=str(answer["error_class"]),
        message=message,
        signature=signature(str(answer["error_class"]), message),
        traceback=_shown(str(answer.get("traceback", "")), setting),
    )


def _shown(text: str, setting: RunSetting) -> str:
    if setting.tree:
        for known in (setting.tree.path, setting.tree.path.resolve()):
            text = text.replace(f"{known}/", "")
    return placeless(text, setting.folder)


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
