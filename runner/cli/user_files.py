"""Case files outside `cases/`: with a store and a site of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from repromatrix.runner.errors import OldFault, refuse
from repromatrix.runner.paths import Paths


def own_files(places: Paths, cases: Sequence[str], option: str) -> tuple[Paths, list[Path] | None]:
    """Tell files of the user's from cases by name.

    Nothing of such a file is kept under the corpus's name. Raises RunnerError where both are
    mixed, or where a file is a case of the corpus.
    """
    files = [Path(text) for text in cases if text.endswith(".py") or "/" in text]
    if not files:
        return places, None
    if len(files) < len(cases):
        found, allowed = " ".join(cases), "either files of yours or cases by name"
        raise refuse(OldFault(where=option, found=found, allowed=allowed))
    inside = [path for path in files if path.resolve().is_relative_to(places.cases)]
    if inside:
        found, remedy = str(inside[0]), f"Say `{option} {inside[0].stem}`."
        allowed = "a name, or a file outside `cases/`"
        raise refuse(OldFault(where=option, found=found, allowed=allowed, fix=remedy))
    return dataclasses.replace(places, own=True), files
