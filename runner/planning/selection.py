"""The selected cells: from the options as they were typed to a predicate of cells."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from packaging.specifiers import SpecifierSet

from repromatrix.runner.errors import ExitCode, InvalidValue, Problem, RunnerError, refuse
from repromatrix.runner.judging.features import FEATURES
from repromatrix.runner.model.case import PLAIN, Case, Trigger, stem_of
from repromatrix.runner.model.cell import Cell, cells_of
from repromatrix.runner.model.environment_name import taken_apart, under_torch, with_torch
from repromatrix.runner.model.families import meant, nearest
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.model.packages import TRANSFORMERS
from repromatrix.runner.paths import as_typed
from repromatrix.runner.text import join

NONE = "none"
"""Selects the plain case where a workaround is expected."""

CASE = "CASE"
"""The positional argument of commands that take a case."""
_SHOWN = 12
"""Up to so many choices are listed in full."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The selected names, each checked to exist."""

    cases: frozenset[str]
    environments: frozenset[str]
    precisions: frozenset[Precision]
    workarounds: frozenset[str] | None
    device: Device
    only: frozenset[Cell] | None = None
    """None, or the only cells that are selected."""

    def __call__(self, cell: Cell) -> bool:
        """Return whether a cell is selected."""
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
        """Return the selected cells of a case in one environment, plain first."""
        if case.name not in self.cases or environment not in self.environments:
            return []
        cells = cells_of(case, environment, precisions, device)
        # Decided once for all of them: a plan may be about a million cells.
        if (
            self.only is None
            and self.workarounds is None
            and self.precisions.issuperset(precisions)
        ):
            return [*cells] if device is self.device else []
        return [*filter(self, cells)]


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionRequest:
    """The options as they were typed; empty means everything."""

    case: Sequence[str] = ()
    area: Sequence[str] = ()
    model: Sequence[str] = ()
    release: Sequence[str] = ()
    precision: Sequence[str] = ()
    workaround: Sequence[str] = ()
    trigger: Sequence[str] = ()
    package: Sequence[str] = ()
    feature: Sequence[str] = ()
    device: Device = Device.CPU


def select(
    request: SelectionRequest,
    cases: Mapping[str, Case],
    names: Sequence[str],
    argument: str = "--case",
) -> Selection:
    """Turn what was typed into a selection; `argument` is how the cases were named.

    Raises RunnerError (exit 2) naming what does not exist, or (exit 3) when nothing is left.
    """
    chosen = _cases(request, cases, argument)
    environments = environments_of(request.release, names)
    workarounds = _workarounds(request.workaround, [cases[name] for name in chosen])
    precisions = split(request.precision)
    _refuse_unknown("--precision", precisions, [*Precision])
    if not chosen:
        raise nothing_selected(
            {
                argument: request.case,
                "--area": request.area,
                "--model": request.model,
                "--trigger": request.trigger,
                "--package": request.package,
            }
        )
    if not environments:
        raise nothing_selected({"--release": request.release})
    return Selection(
        cases=frozenset(chosen),
        environments=frozenset(environments),
        precisions=frozenset(map(Precision, precisions)) or frozenset(Precision),
        workarounds=workarounds,
        device=request.device,
    )


def split(texts: Iterable[str]) -> list[str]:
    """Return the names of an option that may be repeated and may hold several."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _cases(request: SelectionRequest, cases: Mapping[str, Case], argument: str) -> list[str]:
    areas = {case.block.area for case in cases.values()}
    _refuse_unknown("--area", request.area, areas)
    models = asked_models(request, cases)
    triggers = split(request.trigger)
    _refuse_unknown("--trigger", triggers, [*Trigger])
    packages = {*split(request.package)}
    blamed = {name: at_fault(case) for name, case in cases.items()} if packages else {}
    _refuse_unknown("--package", packages, {*chain.from_iterable(blamed.values())})
    return [
        name
        for name in named_cases(request.case, list(cases), argument)
        if (not request.area or cases[name].block.area in request.area)
        and (not request.model or cases[name].block.is_about(models))
        and (not triggers or set(triggers).intersection(cases[name].block.triggers))
        and (not packages or packages & blamed[name])
    ]


def at_fault(case: Case) -> frozenset[str]:
    """Return the packages at fault in the bugs of a case."""
    return frozenset(entry.package or TRANSFORMERS for entry in case.block.fails)


def asked_models(request: SelectionRequest, cases: Mapping[str, Case]) -> frozenset[str]:
    """Return the models that `--model` names or matches, without any none; raises RunnerError.

    They are families as cases name them, and types of transformers that no case is about.
    """
    known = families_of(cases)
    found: set[str] = set()
    for typed in split(request.model):
        names = meant(typed, known)
        if not names:
            near = [repr(name) for name in nearest(typed, known)]
            hint = f"Did you mean {join(near, 'or')}? " if near else ""
            fix = f"{hint}Give a `model_type`, a class of a model or a hub id."
            raise refuse(Problem("--model", f"unknown model {typed!r}", fix))
        found.update(names)
    return frozenset(found)


def asked_features(request: SelectionRequest) -> frozenset[str]:
    """Return the features that are used: those of `--feature`, and triggers; raises RunnerError."""
    named = split(request.feature)
    _refuse_unknown("--feature", named, FEATURES)
    return frozenset([*named, *FEATURES.keys() & {*split(request.trigger)}])


def families_of(cases: Mapping[str, Case]) -> frozenset[str]:
    """Return the families of models that some case is about."""
    return frozenset(model for case in cases.values() for model in case.block.answers_for)


def named_cases(patterns: Sequence[str], names: list[str], option: str = "--case") -> list[str]:
    """Return the cases that names and globs match, without any all; raises RunnerError."""
    return _matching(option, patterns, names) if patterns else names


def _matching(option: str, patterns: Sequence[str], names: list[str]) -> list[str]:
    matching: dict[str, None] = {}
    for pattern in split(patterns):
        matches = [name for name in names if _is_meant(name, pattern)]
        names_variant = "[" in pattern and stem_of(pattern) in map(stem_of, names)
        if not matches and (names_variant or not set(pattern) & set("*?[")):
            raise _unknown(option, pattern, names)
        matching.update(dict.fromkeys(matches))
    return list(matching)


def _is_meant(name: str, pattern: str) -> bool:
    """Say whether a name matches; that of a case without a variant means all its variants."""
    return name == pattern or any(fnmatch.fnmatch(one, pattern) for one in (name, stem_of(name)))


def environments_of(
    texts: Sequence[str], names: Sequence[str], option: str = "--release"
) -> list[str]:
    """Return the environments that `--release` selects, in the order of the table; without any all.

    A release, also one under another torch, stands for itself and for its environments with
    extras; pairs are named.
    """
    if not texts:
        return list(names)
    selected: set[str] = set()
    for text in texts:
        if text.strip()[:1] in {">", "<", "=", "!", "~"}:
            selected.update(_specified(text, names, option))
        else:
            _refuse_unknown(option, split([text]), names)
            selected.update(split([text]))
    return [name for name in names if name in selected or _bare(name) in selected]


def _bare(name: str) -> str:
    """Return a name without its extras; of a pair, the name itself."""
    if torch := under_torch(name):
        return with_torch(_bare(torch[0]), torch[1])
    parts = taken_apart(name) if "+" in name else None
    return parts.base if parts and not parts.changed else name


def _specified(text: str, names: Sequence[str], option: str) -> list[str]:
    """Return the published releases in a specifier; `main`, pairs and stacks are named instead."""
    releases = [name for name in names if name != MAIN and "+" not in name and name[0].isdigit()]
    try:
        specifier = SpecifierSet(text)
        return [name for name in releases if specifier.contains(name, prereleases=True)]
    except ValueError as error:  # also for a number of 5,000 digits
        expected = 'a release, a comma-separated list, or a specifier such as ">=4.50,<4.52"'
        raise refuse(InvalidValue(option, text, expected)) from error


def _workarounds(texts: Sequence[str], cases: Sequence[Case]) -> frozenset[str] | None:
    if not texts:
        return None
    known = {NONE, *(name for case in cases for name in case.block.workarounds)}
    _refuse_unknown("--workaround", split(texts), known)
    return frozenset(PLAIN if text == NONE else text for text in split(texts))


def selecting(cell: Cell) -> list[str]:
    """Return the options that select one cell of a case in one environment."""
    device = [] if cell.device is Device.CPU else ["--device", cell.device]
    return ["--precision", cell.precision, "--workaround", cell.workaround or NONE, *device]


def _refuse_unknown(option: str, texts: Iterable[str], known: Collection[str]) -> None:
    for text in texts:
        if text not in known:
            raise _unknown(option, text, known)


def _unknown(option: str, typed: str, known: Iterable[str]) -> RunnerError:
    choices = sorted(map(str, known))
    fix = suggestion(typed, choices)
    if option in {"--case", CASE, "--ignore"}:  # cases are too many to list
        fix = f"{fix} Run `{as_typed('results')}` to list cases.".strip()
        return refuse(Problem(option, f"unknown case {typed!r}", fix))
    shown = choices if len(choices) <= _SHOWN else [*choices[:5], "…", *choices[-5:]]
    return refuse(InvalidValue(option, typed, one_of(shown), fix))


def one_of(choices: Sequence[str]) -> str:
    """Return choices as words for an error: `'none'`, or `text, markdown or json`."""
    return join(choices, "or") if len(choices) > 1 else repr(choices[0])


def suggestion(typed: str, choices: Sequence[str]) -> str:
    """Return `Did you mean …?` with the choice that is nearest, or nothing where none is near."""
    longer = [name for name in choices if typed and name.startswith(typed)]
    nearest = longer or difflib.get_close_matches(typed, choices, n=1, cutoff=0.6)
    return f"Did you mean {nearest[0]!r}?" if nearest else ""


def nothing_selected(typed: Mapping[str, Sequence[str]]) -> RunnerError:
    """Return the error (exit 3) for options, by name, that select nothing, each or together."""
    given = {option: texts for option, texts in typed.items() if texts}
    shown = join([repr(" ".join(texts)) for texts in given.values()])
    what = f"nothing matches {shown}" if given else "there is nothing to select"
    return refuse(Problem(", ".join(given or typed), what), ExitCode.NOTHING_SELECTED)
