"""What `audit` and `advise` answer at any versions, as tables that a page looks up.

The measured versions of a package are points on a line. Between two of them, and beside the
outermost, every version is answered alike, so a case has one answer for each place on the lines of
the packages that decide. The functions of `runner/audit` are asked at every place; the page only
finds the place.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from operator import or_
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from repromatrix.reports.exports.matrix_js import Numbered, folded
from repromatrix.reports.text import kinds, page_of, shortened, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.audit.hits import MOVES, as_described, avoiding, remedies, says_on
from repromatrix.runner.audit.known import CellResult, KnownEvidence, known
from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.audit.questions import (
    CellAnswer,
    Conclusion,
    Level,
    Says,
    Spot,
    Vectors,
    VersionNeighbours,
    conclude,
    deciding,
    named,
    not_listed,
    not_pinned,
    outside,
    unmet,
    vectors,
)
from repromatrix.runner.audit.torches import torch_requirements
from repromatrix.runner.judging.ranges import bug_of
from repromatrix.runner.model.case import PLAIN, Case, Trigger
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.families import meant
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.model.packages import COMPANIONS, TORCH, TRANSFORMERS

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

_DEVICE = Device.CPU
_PRECISIONS = tuple(Precision)
_MASKS = range(1, 2 ** len(_PRECISIONS))
"""Every choice of precisions: bit n stands for the n-th."""
_SAYS, _LEVELS = tuple(Says), tuple(Level)
_ERROR = 300
_OLDEST = "0.dev0"
"""A version below all others."""
_NOTHING = -1

Numbers = tuple[int, ...]


def evidence_of(survey: Survey) -> KnownEvidence:
    """Return what the pages know, as `audit` takes it."""
    rows = (row.seen for row in survey.rows.values() if row.seen.source)
    return known(survey.cases, survey.by_name, rows)


def decisions(survey: Survey) -> dict[str, Any]:
    """Return the tables, made of what JSON knows."""
    return _Decisions(evidence_of(survey)).tables()


@dataclass(frozen=True, kw_only=True)
class PlaceGrid:
    """The places on the lines of some packages, and the environments around each."""

    number: int
    names: tuple[str, ...]
    lines: tuple[tuple[Version, ...], ...]
    places: Numbers
    """By place, the number of its neighbourhood; the place on the last line changes first."""
    neighbourhoods: tuple[VersionNeighbours, ...]

    @cached_property
    def environments(self) -> tuple[str, ...]:
        """The environments that have all of the packages."""
        return tuple(self.neighbourhoods[0].vectors) if self.neighbourhoods else ()


def _grid(number: int, case: Case, names: tuple[str, ...], evidence: KnownEvidence) -> PlaceGrid:
    measured = vectors(case, names, evidence)
    lines = tuple(
        tuple(sorted({vector[axis] for vector in measured.values()})) for axis in range(len(names))
    )
    # Of n points there are n + 1 gaps: the gaps are even, the points odd.
    at = [{version: 2 * place + 1 for place, version in enumerate(line)} for line in lines]
    placed = Vectors(
        {
            name: tuple(places[version] for places, version in zip(at, vector, strict=True))
            for name, vector in sorted(measured.items(), key=lambda item: item[1])
        }
    )
    at_most = [_at_most(placed, axis, 2 * len(line) + 1) for axis, line in enumerate(lines)]
    alike: Numbered[tuple[int, int]] = Numbered()
    neighbourhoods: list[VersionNeighbours] = []
    places = []
    for ours in itertools.product(*(range(2 * len(line) + 1) for line in lines)):
        below = above = (1 << len(placed)) - 1
        for place, masks in zip(ours, at_most, strict=True):
            below &= masks[place]
            above &= ~masks[place - 1] if place else above
        places.append(alike.number((below, above)))
        if places[-1] == len(neighbourhoods):
            neighbourhoods.append(
                VersionNeighbours(
                    vectors=placed,
                    exact=_named(placed, below & above),
                    below=_named(placed, below)[::-1],
                    above=_named(placed, above),
                )
            )
    return PlaceGrid(
        number=number,
        names=names,
        lines=lines,
        places=tuple(places),
        neighbourhoods=tuple(neighbourhoods),
    )


def _at_most(placed: Vectors, axis: int, length: int) -> list[int]:
    """Return by place on a line which environments are there or before it, a bit for each."""
    at = [0] * length
    for bit, vector in enumerate(placed.values()):
        at[vector[axis]] |= 1 << bit
    return [*itertools.accumulate(at, or_)]


def _named(placed: Vectors, mask: int) -> tuple[str, ...]:
    return tuple(name for bit, name in enumerate(placed) if mask >> bit & 1)


class _Decisions:
    """Every table, filled case by case."""

    def __init__(self, evidence: KnownEvidence) -> None:
        self.known = evidence
        self.environment = {name: place for place, name in enumerate(evidence.environments)}
        self.grids: dict[object, PlaceGrid] = {}
        self.texts: Numbered[str] = Numbered()
        self.conclusions: Numbered[Numbers] = Numbered()
        self.series: Numbered[Numbers] = Numbered()
        # By their text: `>=5` and `>=5.0` are equal, and an answer prints what the case says.
        self.requirements: Numbered[str] = Numbered()
        self.by_torch: dict[str, Case] = {}
        """By what their expectations say of torch, a case of those that depend on it."""
        self.concluded: dict[object, tuple[tuple[Conclusion, ...], int]] = {}

    def tables(self) -> dict[str, Any]:
        """Return all tables."""
        evidence = self.known
        cases = evidence.cases.values()
        described = [*map(self._case, cases)]  # fills the tables that follow
        builds, pythons = evidence.ran_on(_DEVICE)
        return {
            "says": _SAYS,
            "levels": _LEVELS,
            "precisions": _PRECISIONS,
            "moves": MOVES,
            "torch": builds,
            "python": pythons,
            "companions": COMPANIONS,
            "packages": self._packages,
            "environments": [
                [visible(name), *(visible(environment.version(each)) for each in self._packages)]
                for name, environment in evidence.environments.items()
            ],
            "releases": [self.environment[name] for name in evidence.releases()],
            "grids": [_drawn(grid) for grid in self.grids.values()],
            "requirements": [
                self._torch(self.by_torch[each])
                if each in self.by_torch
                else self._requirement(Requirement(each))
                for each in self.requirements.values
            ],
            "series": [folded(numbers) for numbers in self.series.values],
            "conclusions": self.conclusions.values,
            "texts": self.texts.values,
            "cases": described,
            **_groups([*cases]),
            "unpinned": not_pinned("{name}", "{why}"),
            "unlisted": not_listed("{name}"),
        }

    @cached_property
    def _packages(self) -> tuple[str, ...]:
        """The packages whose versions an answer may name."""
        cases = self.known.cases.values()
        names = {name for case in cases for name in (*case.packages, *deciding(case, self.known))}
        return tuple(sorted({*names, TRANSFORMERS, *COMPANIONS} - {TORCH}))

    def _case(self, case: Case) -> dict[str, Any]:
        names = deciding(case, self.known)
        grid = self._grid(case, names)
        cells = _CaseCells(case, grid, self)
        asked = [each for each in case.head.dependencies if canonicalize_name(each.name) != TORCH]
        return {
            "name": visible(case.name),
            "title": visible(case.block.title),
            "href": page_of(case.name),
            "families": [*map(visible, case.block.families)],
            "shared": [*map(visible, case.block.same_code)],
            "kind": case.block.kind,
            "kinds": kinds(case),
            "deciding": names,
            "named": named(case),
            "watched": sorted({*case.packages, *names, TORCH}),
            "requires": [
                self.requirements.number(each)
                for each in filter(None, [*map(str, asked), self._torch_key(case)])
            ],
            "workarounds": [
                {
                    "name": visible(name),
                    "says": visible(way.says),
                    "snippet": visible(case.block.snippets.get(name, "")),
                    "skips": way.skips,
                }
                for name, way in case.block.workarounds.items()
            ],
            "grid": grid.number,
            "spots": [
                [cells.series[name, precision] for precision in _PRECISIONS]
                for name in case.branches
            ],
            **cells.hits(),
            "at": [self._said(case, each) for each in _PRECISIONS],
        }

    def _said(self, case: Case, precision: Precision) -> str:
        """Return what is said of a case on each release, a digit each."""
        spot = Spot(case.name, precision)
        there = says_on(self.known.releases(), [spot], self.known, _DEVICE)[spot]
        return "".join(str(_SAYS.index(says)) for says in there.values())

    def _grid(self, case: Case, names: tuple[str, ...]) -> PlaceGrid:
        key = (names, tuple(environment.name for environment in self.known.of(case)))
        if key not in self.grids:
            self.grids[key] = _grid(len(self.grids), case, names, self.known)
        return self.grids[key]

    def conclusions_of(
        self, grid: PlaceGrid, results: Mapping[str, CellResult]
    ) -> tuple[tuple[Conclusion, ...], int]:
        """Return what results say in each neighbourhood of a grid, and the number of that.

        Many cells have equal ones.
        """
        key = (grid.number, tuple(results.values()))
        if key not in self.concluded:
            concluded = tuple(
                conclude(near, results.__getitem__, grid.names) for near in grid.neighbourhoods
            )
            number = self.series.number(tuple(map(self._conclusion, concluded)))
            self.concluded[key] = concluded, number
        return self.concluded[key]

    def _conclusion(self, concluded: Conclusion) -> int:
        low, high = [*(self.environment[name] for name in concluded.rests_on), _NOTHING, _NOTHING][
            :2
        ]
        why = self.texts.number(visible(concluded.why)) if concluded.why else _NOTHING
        says, level = _SAYS.index(concluded.says), _LEVELS.index(concluded.level)
        return self.conclusions.number((says, level, low, high, why))

    def _torch_key(self, case: Case) -> str:
        """Return the name under which the torches that a case is known for are kept; or nothing."""
        asked = [str(requirement.specifier) for requirement in torch_requirements(case)]
        key = " ".join([TORCH, *sorted({*asked})]) if asked else ""
        self.by_torch.setdefault(key, case)
        return key

    def _torch(self, case: Case) -> dict[str, Any]:
        """Return for which versions of torch something is known of a case."""
        edges = sorted(
            {edge for asked in torch_requirements(case) for edge in _edges(asked.specifier)}
        )
        return {
            "package": TORCH,
            "line": [*map(str, edges)],
            "holds": [int(self.known.is_for(case, text)) for text in _representatives(edges)],
            "span": [],
            "within": None,
            "outside": (Says.UNKNOWN, outside(TORCH, "{version}")),
            # Whoever does not list torch is told that its version is not known.
            "absent": None,
            "unlisted": None,
        }

    def _requirement(self, requirement: Requirement) -> dict[str, Any]:
        """Return what a requirement means for every version of its package."""
        name = canonicalize_name(requirement.name)
        span = self.known.span(name)
        edges = sorted(_edges(requirement.specifier))

        def says(pins: Mapping[str, str], *, whole: bool = True) -> tuple[Says, str] | None:
            mine = Installed(what="", form="", pins=pins, whole=whole)
            return unmet(requirement, mine, self.known)

        words: dict[bool, tuple[Says, str]] = {}
        for version in _representatives(sorted({*edges, *(span or ())})):
            said = says({name: version})
            if said:
                within = span is not None and span[0] <= Version(version) <= span[1]
                before, _, after = said[1].rpartition(version)
                words[within] = (said[0], f"{before}{{version}}{after}")
        return {
            "package": name,
            "line": [*map(str, edges)],
            "holds": [int(says({name: text}) is None) for text in _representatives(edges)],
            "span": [*map(str, span)] if span else [],
            "within": words.get(True),
            "outside": words.get(False),
            "absent": says({}),
            "unlisted": says({}, whole=False),
        }


class _CaseCells:
    """What is concluded of every cell of a case, in each neighbourhood of its grid."""

    def __init__(self, case: Case, grid: PlaceGrid, tables: _Decisions) -> None:
        self.case, self.grid, self.tables = case, grid, tables
        self.known = tables.known
        self.results = {
            (name, precision): {
                environment: self.known.result(self._cell(name, environment, precision))
                for environment in grid.environments
            }
            for name in case.branches
            for precision in _PRECISIONS
        }
        found = {
            spot: tables.conclusions_of(grid, results) for spot, results in self.results.items()
        }
        self.concluded = {spot: concluded for spot, (concluded, _) in found.items()}
        self.series = {spot: number for spot, (_, number) in found.items()}
        numbers: Numbered[object] = Numbered()
        self.ways = {
            each: [
                numbers.number(tuple(one[:2] for one in found))
                for found in zip(*(self.concluded[way, each] for way in case.branches), strict=True)
            ]
            for each in _PRECISIONS
        }
        """By place, the number of what its cells say, of all workarounds in turn."""
        # Thousands of neighbourhoods rest on the same few rows, passes and remedies.
        self.told = cache(self._told)
        self.avoiding = cache(self._avoiding)
        self.remedies: dict[object, tuple[Numbers, ...]] = {}

    def _cell(self, workaround: str, environment: str, precision: Precision) -> Cell:
        return Cell(self.case.name, workaround, environment, precision, _DEVICE)

    def hits(self) -> dict[str, Any]:
        """Return by choice of precisions the record of the hit in each neighbourhood; 0 is none."""
        records: Numbered[object] = Numbered()
        records.number(None)
        failing = {
            each: [concluded.says is Says.HITS for concluded in self.concluded[PLAIN, each]]
            for each in _PRECISIONS
        }
        passing = {
            each: frozenset(
                name for name, result in self.results[PLAIN, each].items() if result.fails is False
            )
            for each in _PRECISIONS
        }
        hits = {}
        clears: dict[frozenset[str], frozenset[str]] = {}
        for mask in _MASKS:
            precisions = [each for bit, each in enumerate(_PRECISIONS) if mask >> bit & 1]
            hitting = map(all, zip(*(failing[each] for each in precisions), strict=True))
            clear = frozenset.intersection(*(passing[each] for each in precisions))
            clear = clears.setdefault(clear, clear)
            hits[mask] = folded(
                records.number(self._record(place, precisions, clear)) if hit else 0
                for place, hit in enumerate(hitting)
            )
        return {"hits": hits, "records": records.values}

    def _record(self, place: int, precisions: Sequence[Precision], clear: frozenset[str]) -> object:
        """Return what is said of a hit in some precisions: all of them fail there.

        `clear` are the environments in which all of them pass.
        """
        rests_on = self.concluded[PLAIN, precisions[0]][place].rests_on
        told = [self.told(precisions[0], name) for name in rests_on]
        verdict, title, headline, _ = told[0]
        builds = tuple(dict.fromkeys(build for *_, build in told))
        beside = self.avoiding(place, clear)
        return (verdict, title, headline, *beside, builds, self._remedies(precisions, place))

    def _avoiding(self, place: int, clear: frozenset[str]) -> Numbers:
        """Return the numbers of the nearest environments, newer and older, that pass."""
        return tuple(
            _NOTHING if name is None else self.tables.environment[name]
            for name in avoiding(self.grid.neighbourhoods[place], clear.__contains__)
        )

    def _told(self, precision: Precision, environment: str) -> Numbers:
        """Return what is said of a plain cell that fails: verdict, title, error and torch."""
        row = self.known.row(self._cell(PLAIN, environment, precision))
        number, failed = self.tables.texts.number, row.failed
        title, _ = bug_of(self.case, row, self.known.environments[environment])
        return (
            number(as_described(self.case, row, self.known)[0]),
            number(visible(title)),
            number(shortened(failed.headline if failed else str(row.outcome), _ERROR)),
            number(visible(row.provenance.torch_build)),
        )

    def _remedies(self, precisions: Sequence[Precision], place: int) -> tuple[Numbers, ...]:
        """Return the numbers of the workarounds that pass, each with where it does."""
        key = (*((each, self.ways[each][place]) for each in precisions),)
        if key not in self.remedies:
            ways = list(self.case.block.workarounds)
            cells = [self._answer(PLAIN, each, place) for each in precisions]

            def tried(name: str, cell: CellAnswer) -> CellAnswer:
                return self._answer(name, cell.precision, place)

            self.remedies[key] = tuple(
                (ways.index(remedy.name), _mask(cell.precision for cell in remedy.stands))
                for remedy in remedies(self.case, cells, tried)
            )
        return self.remedies[key]

    def _answer(self, workaround: str, precision: Precision, place: int) -> CellAnswer:
        def cell(environment: str) -> Cell:
            return self._cell(workaround, environment, precision)

        return self.concluded[workaround, precision][place].of(cell, self.known)


def _drawn(grid: PlaceGrid) -> dict[str, Any]:
    lines = [[*map(str, line)] for line in grid.lines]
    return {"packages": grid.names, "lines": lines, "near": folded(grid.places)}


def _groups(cases: Sequence[Case]) -> dict[str, Any]:
    """Return the numbers of the cases that an answer about a model or a trigger is about."""
    models = sorted({name for case in cases for name in case.block.answers_for})
    return {
        "models": {
            visible(model): _places(case.block.is_about(meant(model, models)) for case in cases)
            for model in models
        },
        "triggers": {
            trigger: _places(trigger in case.block.triggers for case in cases)
            for trigger in Trigger
        },
    }


def _places(holds: Iterable[bool]) -> list[int]:
    return [place for place, does in enumerate(holds) if does]


def _mask(precisions: Iterable[Precision]) -> int:
    return sum(1 << _PRECISIONS.index(precision) for precision in precisions)


def _edges(specifier: SpecifierSet) -> Iterator[Version]:
    """Yield the versions at which the answer of a specifier may change."""
    for clause in specifier:
        version = Version(clause.version.removesuffix(".*"))
        yield version
        if clause.operator == ">":  # it keeps out the post-releases, too
            yield Version(f"{version.base_version}.post999999999")
        if clause.version.endswith(".*") or clause.operator == "~=":
            kept = version.release if clause.version.endswith(".*") else version.release[:-1]
            yield Version(".".join(map(str, (*kept[:-1], kept[-1] + 1))))


def _representatives(line: Sequence[Version]) -> list[str]:
    """Return a version for each place on a line: before the first point, on it, behind it."""
    return [_OLDEST, *(text for version in line for text in (str(version), _behind(version)))]


def _behind(version: Version) -> str:
    """Return a version just behind another."""
    return f"{version.base_version}{'.0.0.0.1' if version.post is not None else '.post0'}"
