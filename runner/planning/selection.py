"""What was asked for, as a value that says yes or no to a cell."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet

from repromatrix.runner.errors import ExitCode, OldFault, RunnerError, refuse
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.cell import Cell, cells_of
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.outcomes import Device, Precision

NONE = "none"
"""How the plain case is named where a workaround is asked for."""

CASE = "CASE"
"""The argument of commands that name a case without an option."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownCase(OldFault):
    """A case that there is not: too many to list, so it says where they are listed."""

    def __str__(self) -> str:
        """Name the option where there is one."""
        what = "Unknown case" if self.where == CASE else f"{self.where}: unknown case"
        parts = (f"{what} {self.found!r}.", self.fix, "Run `nox -s results` to list cases.")
        return " ".join(filter(None, parts))


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
class SelectionRequest:
    """The options as they were typed; empty means everything."""

    case: Sequence[str] = ()
    area: Sequence[str] = ()
    model: Sequence[str] = ()
    release: Sequence[str] = ()
    precision: Sequence[str] = ()
    workaround: Sequence[str] = ()
    device: Device = Device.CPU


def select(
    wish: SelectionRequest,
    cases: Mapping[str, Case],
    names: Sequence[str],
    argument: str = "--case",
) -> Selection:
    """Turn what was typed into a selection; `argument` is how the cases were named.

    Raises RunnerError (exit 2) naming what does not exist, or (exit 3) when nothing is left.
    """
    chosen = _cases(wish, cases, argument)
    environments = environments_of(wish.release, names)
    workarounds = _workarounds(wish.workaround, [cases[name] for name in chosen])
    precisions = frozenset(_precision(text) for text in _split(wish.precision)) or frozenset(
        Precision
    )
    if not chosen:
        raise nothing_selected({argument: wish.case, "--area": wish.area, "--model": wish.model})
    if not environments:
        raise nothing_selected({"--release": wish.release})
    return Selection(
        cases=frozenset(chosen),
        environments=frozenset(environments),
        precisions=precisions,
        workarounds=workarounds,
        device=wish.device,
    )


def _split(texts: Iterable[str]) -> list[str]:
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _cases(wish: SelectionRequest, cases: Mapping[str, Case], argument: str) -> list[str]:
    areas = {case.block.area for case in cases.values()}
    for area in wish.area:
        if area not in areas:
            raise _unknown("--area", area, areas)
    known = sorted({model for case in cases.values() for model in case.block.models})
    models = set(_matching("--model", wish.model, known))
    return [
        name
        for name in named_cases(wish.case, list(cases), argument)
        if (not wish.area or cases[name].block.area in wish.area)
        and (not wish.model or models & set(cases[name].block.models))
    ]


def named_cases(patterns: Sequence[str], names: list[str], option: str = "--case") -> list[str]:
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


def environments_of(
    texts: Sequence[str], names: Sequence[str], option: str = "--release"
) -> list[str]:
    """Return what `--release` asks for, in the order of the table; for nothing, all.

    A release stands for itself and for what is laid on top of it; pairs are named.
    """
    if not texts:
        return list(names)
    found: set[str] = set()
    for text in texts:
        specified = text.strip()[:1] in {">", "<", "=", "!", "~"}
        found.update(_specified(text, names, option) if specified else _named(text, names, option))
    return [name for name in names if name in found or _bare(name) in found]


def _bare(name: str) -> str:
    """Return a name without its extras; of a pair, the name itself."""
    parts = taken_apart(name) if "+" in name else None
    return parts.base if parts and not parts.changed else name


def _specified(text: str, names: Sequence[str], option: str) -> list[str]:
    """Return the published releases in a specifier; `main`, pairs and stacks are named instead."""
    releases = [name for name in names if name != MAIN and "+" not in name and name[0].isdigit()]
    try:
        specifier = SpecifierSet(text)
        return [name for name in releases if specifier.contains(name, prereleases=True)]
    except ValueError as error:  # also for a number of 5,000 digits
        allowed = 'a release, a comma list, or a specifier like ">=4.50,<4.52"'
        raise refuse(OldFault(where=option, found=repr(text[:60]), allowed=allowed)) from error


def _named(text: str, names: Sequence[str], option: str) -> list[str]:
    for part in _split([text]):
        if part not in names:
            raise _unknown(option, part, names)
    return _split([text])


def _workarounds(texts: Sequence[str], cases: Sequence[Case]) -> frozenset[str] | None:
    if not texts:
        return None
    known = {NONE, *(name for case in cases for name in case.block.workarounds)}
    for text in _split(texts):
        if text not in known:
            raise _unknown("--workaround", text, known)
    return frozenset(PLAIN if text == NONE else text for text in _split(texts))


def _precision(text: str) -> Precision:
    try:
        return Precision(text)
    except ValueError:
        raise _unknown("--precision", text, list(Precision)) from None


def _unknown(option: str, found: str, known: Iterable[str]) -> RunnerError:
    allowed = sorted(map(str, known))
    nearest = difflib.get_close_matches(found, allowed, n=1, cutoff=0.6)
    remedy = f"Did you mean {nearest[0]!r}?" if nearest else ""
    if option in {"--case", CASE, "--ignore"}:
        return refuse(UnknownCase(where=option, found=found, allowed="a case", fix=remedy))
    shown = ", ".join(allowed if len(allowed) <= 12 else [*allowed[:5], "…", *allowed[-5:]])  # noqa: PLR2004
    return refuse(OldFault(where=option, found=repr(found), allowed=shown, fix=remedy))


def nothing_selected(asked: Mapping[str, Sequence[str]]) -> RunnerError:
    """Return the error for options that select nothing, each or together."""
    typed = {option: texts for option, texts in asked.items() if texts}
    shown = " and ".join(repr(" ".join(texts)) for texts in typed.values()) or "'nothing'"
    where = ", ".join(typed or asked)
    fault = OldFault(where=where, found=f"{shown}, which selects nothing", allowed="a match")
    return refuse(fault, ExitCode.NOTHING_SELECTED)
