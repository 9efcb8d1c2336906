"""What a worker answers, made into an observation."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repromatrix.runner.execution.events import Tree
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import (
    LOCAL,
    Failed,
    MemoryUse,
    Observation,
    Provenance,
    signature,
)
from repromatrix.runner.model.outcomes import Exercised, Outcome
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

    provenance: Provenance
    """Of every cell, but for its case and for what it imported."""
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
    imported, claimed = answer.get("imported", {}), answer.get("claimed", {})
    # A tree is identified by the version that it states itself, as it was imported.
    package = setting.tree.package if setting.tree else ""
    own = {package: claimed[package]} if package in claimed else {}
    outcome, reason = Outcome(answer["outcome"]), answer.get("reason", "")
    memory = MemoryUse(peak=answer["peak"], limit=answer["limit"]) if "peak" in answer else None
    if memory and memory.is_over and outcome is Outcome.OUT_OF_MEMORY:
        reason = reason or f"above our limit of {memory.limit} MiB"
    foreign = [] if setting.foreign_files else _foreign(imported, setting)
    if foreign:
        home = "the tree" if foreign[0] == package else "the environment"
        outcome, reason = Outcome.NOT_RUN, f"refused: {foreign[0]} is no file of {home}"
    return Observation(
        cell=cell,
        outcome=outcome,
        provenance=dataclasses.replace(
            setting.provenance,
            case_digest=case_digest,
            packages={**setting.provenance.packages, **own},
            imported={name: _shown(file, setting) for name, file in imported.items()},
        ),
        source=LOCAL,
        failed=_failed(answer, outcome, setting),
        reason=reason,
        exercised=Exercised(answer.get("exercised", "")),
        computed=answer.get("computed", {}),
        measured=answer.get("measured", {}),
        seconds=answer.get("seconds", answer.get("wall")),
        output=answer.get("output", ""),
        memory=memory,
    )


def _foreign(imported: Mapping[str, str], setting: RunSetting) -> list[str]:
    """Return the packages that came from elsewhere than they should have."""
    homes = {"torch": setting.torch} if setting.torch else {}
    if setting.tree:
        homes[setting.tree.package] = setting.tree.path / setting.tree.package
    return [
        name
        for name, file in imported.items()
        if not Path(file).resolve().is_relative_to(homes.get(name, setting.folder).resolve())
    ]


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
