"""What a worker answers, made into an observation."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repromatrix.runner.execution.events import Ready
from repromatrix.runner.model.cell import Cell, Source
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
_DTYPES = re.compile(r"\{(torch\.\w+(?:, torch\.\w+)+)\}")


def observe(
    cell: Cell, answer: Mapping[str, Any], provenance: Provenance, ready: Ready
) -> Observation:
    """Turn an answer into an observation; a cell that imported foreign files is refused.

    `provenance` says all but what the cell imported.
    """
    imported, claimed = answer.get("imported", {}), answer.get("claimed", {})
    package = ready.tree.package if ready.tree else ""
    # A tree is identified by the version that it states itself, as it was imported; what the
    # environment knows beside it is its commit.
    known = provenance.packages.get(package, "").partition("+g")[0]
    own = {package: claimed[package]} if claimed.get(package, known) != known else {}
    outcome, reason = Outcome(answer["outcome"]), answer.get("reason", "")
    memory = MemoryUse(peak=answer["peak"], limit=answer["limit"]) if "peak" in answer else None
    if memory and memory.is_over and outcome is Outcome.OUT_OF_MEMORY:
        reason = reason or f"above our limit of {memory.limit} MiB"
    foreign = _foreign(imported, ready)
    if foreign:
        home = "the tree" if foreign[0] == package else "the environment"
        outcome, reason = Outcome.NOT_RUN, f"refused: {foreign[0]} is no file of {home}"
    return Observation(
        cell=cell,
        outcome=outcome,
        provenance=dataclasses.replace(
            provenance,
            packages={**provenance.packages, **own},
            imported={name: _shown(file, ready) for name, file in imported.items()},
        ),
        source=LOCAL,
        failed=_failed(answer, outcome, ready),
        reason=reason,
        exercised=Exercised(answer.get("exercised", "")),
        computed=answer.get("computed", {}),
        measured=answer.get("measured", {}),
        seconds=answer.get("seconds", answer.get("wall")),
        output=answer.get("payload") or answer.get("output", ""),
        memory=memory,
    )


def _foreign(imported: Mapping[str, str], ready: Ready) -> list[str]:
    if ready.environment.source is Source.INTERPRETER and not ready.tree:
        return []  # those of `--python` may lie anywhere
    homes = {"torch": ready.built.torch} if ready.built.torch else {}
    if ready.tree:
        homes[ready.tree.package] = ready.tree.path / ready.tree.package
    return [
        name
        for name, file in imported.items()
        if not Path(file).resolve().is_relative_to(homes.get(name, ready.built.folder).resolve())
    ]


def _failed(answer: Mapping[str, Any], outcome: Outcome, ready: Ready) -> Failed | None:
    if not (outcome.is_failure or outcome.blames_machine) or "error_class" not in answer:
        return None
    message = ordered(_shown(str(answer.get("message", "")), ready))
    return Failed(
        error_class=str(answer["error_class"]),
        message=message,
        signature=signature(str(answer["error_class"]), message),
        traceback=_shown(str(answer.get("traceback", "")), ready),
    )


def ordered(text: str) -> str:
    """Put sets of dtypes in one order: Python prints theirs anew in every process."""
    return _DTYPES.sub(lambda found: f"{{{', '.join(sorted(found[1].split(', ')))}}}", text)


def _shown(text: str, ready: Ready) -> str:
    if ready.tree:
        for known in (ready.tree.path, ready.tree.path.resolve()):
            text = text.replace(f"{known}/", "")
    return placeless(text, ready.built.folder)


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
