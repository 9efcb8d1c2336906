"""What was asked for, as a value that says yes or no to a cell."""

from __future__ import annotations

import difflib
import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from runner.errors import ExitCode, Fault, RunnerError, refuse
from runner.model.case import PLAIN
from runner.model.cell import cells_of
from runner.model.matrix import MAIN
from runner.model.naming import taken_apart
from runner.model.outcomes import Device, Precision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runner.model.case import Case
    from runner.model.cell import Cell

NONE = "none"
"""How the plain case is named where a workaround is asked for."""

SHOW = "show"
"""What `--plan` stands for where nothing is behind it: print the plan."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The names that were asked for, each checked to exist."""

    cases: frozenset[str]
    environments: frozenset[str]
    precisions: frozenset[Precision]
    workarounds: frozenset[str] | None
    device: Device
    only: frozenset[Cell] | None = None
    """Where single cells were asked for."""

    def __call__(self, cell: Cell) -> bool:
        """Say whether a cell was asked for."""
        return (
            cell.case in self.cases
            and cell.environment in self.environments
            and cell.precision in self.precisions
            and cell.device is self.device
            and (self.workarounds is None or cell.workaround in self.workarounds)
            and (self.only is None or cell in self.only)
        )

    def cells(
        self, case: Case, environment: str, precisions: Sequence[Precision], device: Device
    ) -> list[Cell]:
        """Return the cells of a case in one environment that were asked for, plain first."""
        if case.name not in self.cases or environment not in self.environments:
            return []
        found = cells_of(case, environment, precisions, device)
        # Asked once for all of them: a plan may be about a million.
        if (
            self.only is None
            and self.workarounds is None
            and self.precisions.issuperset(precisions)
        ):
            return [*found] if device is self.device else []
        return [*filter(self, found)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """The options as they were typed; empty means everything."""

    case: Sequence[str] = ()
    area: Sequence[str] = ()
    release: Sequence[str] = ()
    precision: Sequence[str] = ()
    workaround: Sequence[str] = ()
    device: Device = Device.CPU
    model: Sequence[str] = ()


def select(wish: Wish, cases: Mapping[str, Case], names: Sequence[str]) -> Selection:
    """Turn what was typed into a selection.

    Raises RunnerError (exit 2) naming what does not exist, or (exit 3) when nothing is left.
    """
    chosen = _cases(wish, cases)
    environments = environments_of(wish.release, names)
    workarounds = _workarounds(wish.workaround, [cases[name] for name in chosen])
    precisions = frozenset(_precision(text) for text in _split(wish.precision)) or frozenset(
        Precision
    )
    _not_empty("--case", wish.case or wish.area or wish.model, chosen)
    _not_empty("--release", wish.release, environments)
    return Selection(
        cases=frozenset(chosen),
        environments=frozenset(environments),
        precisions=precisions,
        workarounds=workarounds,
        device=wish.device,
    )


def _split(texts: Iterable[str]) -> list[str]:
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _cases(wish: Wish, cases: Mapping[str, Case]) -> list[str]:
    areas = {case.block.area for case in cases.values()}
    for area in wish.area:
        if area not in areas:
            raise _unknown("area", area, areas)
    known = sorted({model for case in cases.values() for model in case.block.models})
    models = set(_matching("model", wish.model, known))
    return [
        name
        for name in named_cases(wish.case, list(cases))
        if (not wish.area or cases[name].block.area in wish.area)
        and (not wish.model or models & set(cases[name].block.models))
    ]


def named_cases(patterns: Sequence[str], names: list[str], option: str = "case") -> list[str]:
    """Return the cases that names and globs mean, for nothing all; raises RunnerError."""
    return _matching(option, patterns, names) if patterns else names


def _matching(option: str, patterns: Sequence[str], names: list[str]) -> list[str]:
    found: dict[str, None] = {}
    for pattern in _split(patterns):
        matching = fnmatch.filter(names, pattern)
        if not matching and not set(pattern) & set("*?["):
            raise _unknown(option, pattern, names)
        found.update(dict.fromkeys(matching))
    return list(found)


def environments_of(texts: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return what `--release` asks for, in the order of the table; for nothing, all.

    A release stands for itself and for what is laid on top of it; pairs are named.
    """
    if not texts:
        return list(names)
    found: set[str] = set()
    for text in texts:
        specified = text.strip()[:1] in {">", "<", "=", "!", "~"}
        found.update(_specified(text, names) if specified else _named(text, names))
    return [name for name in names if name in found or _bare(name) in found]


def _bare(name: str) -> str:
    """Return a name without its extras; of a pair, the name itself."""
    parts = taken_apart(name) if "+" in name else None
    return parts.base if parts and not parts.changed else name


def _specified(text: str, names: Sequence[str]) -> list[str]:
    """Return the published releases in a specifier; `main`, pairs and stacks are named instead."""
    releases = [name for name in names if name != MAIN and "+" not in name and name[0].isdigit()]
    try:
        specifier = SpecifierSet(text)
        return [name for name in releases if specifier.contains(name, prereleases=True)]
    except ValueError as error:  # also for a number of 5,000 digits
        allowed = 'a release, a comma list, or a specifier like ">=4.50,<4.52"'
        raise refuse(Fault(where="--release", found=repr(text[:60]), allowed=allowed)) from error


def _named(text: str, names: Sequence[str]) -> list[str]:
    for part in _split([text]):
        if part not in names:
            raise _unknown("release", part, names)
    return _split([text])


def _workarounds(texts: Sequence[str], cases: Sequence[Case]) -> frozenset[str] | None:
    if not texts:
        return None
    known = {NONE, *(name for case in cases for name in case.block.workarounds)}
    for text in _split(texts):
        if text not in known:
            raise _unknown("workaround", text, known)
    return frozenset(PLAIN if text == NONE else text for text in _split(texts))


def _precision(text: str) -> Precision:
    try:
        return Precision(text)
    except ValueError:
        raise _unknown("precision", text, list(Precision)) from None


def _unknown(name: str, found: str, known: Iterable[str]) -> RunnerError:
    allowed = sorted(map(str, known))
    nearest = difflib.get_close_matches(found, allowed, n=1, cutoff=0.3)
    shown = ", ".join(allowed if len(allowed) <= 12 else [*allowed[:5], "…", *allowed[-5:]])  # noqa: PLR2004
    remedy = f"Did you mean {nearest[0]!r}?" if nearest else ""
    return refuse(Fault(where=f"--{name}", found=repr(found), allowed=shown, remedy=remedy))


def _not_empty(option: str, asked: Sequence[str], found: Sequence[str]) -> None:
    if not found:
        shown = " ".join(asked) or "nothing"
        fault = Fault(where=option, found=f"{shown!r}, which selects nothing", allowed="a match")
        raise refuse(fault, ExitCode.NOTHING_SELECTED)
