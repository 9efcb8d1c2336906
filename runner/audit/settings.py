"""`[tool.repromatrix]` of somebody's `pyproject.toml`: what is asked, ignored and failed on.

The block of a case is a table of the same name; it stands in a case file and is another thing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator

from repromatrix.runner.audit.hits import Hit
from repromatrix.runner.audit.questions import Level
from repromatrix.runner.errors import InvalidValue, Problem, RunnerError, refuse
from repromatrix.runner.model.case import CaseKind, Trigger, decode
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.model.toml import TomlRecord, read, read_table
from repromatrix.runner.planning.selection import SelectionRequest, one_of, split, suggestion

NAME = "pyproject.toml"
TABLE = "tool.repromatrix"
_Request = TypeVar("_Request", bound=SelectionRequest)
_LIMIT = 2**20
"""Bytes; a project that describes itself in more is none."""


class FailOn(StrEnum):
    """What fails the build: words of one group are alternatives, and a hit needs one of each."""

    MEASURED = "measured"
    DERIVED = "derived"
    SWEPT = "swept"
    SILENT = "silent"
    BUG = "bug"
    CHANGE = "change"
    POLICY = "policy"
    NONE = "none"


_LEVELS: Mapping[FailOn, Level | None] = {
    FailOn.MEASURED: Level.MEASURED,
    FailOn.DERIVED: Level.DERIVED,
    FailOn.SWEPT: None,
}
"""The group of levels; what was swept is no hit of a case."""
_KINDS = {FailOn(kind.value): kind for kind in CaseKind}


def _alone(words: tuple[FailOn, ...]) -> tuple[FailOn, ...]:
    if FailOn.NONE in words and len(words) > 1:
        msg = f"{FailOn.NONE.value!r} stands alone"
        raise ValueError(msg)
    return words


def _as_list(value: object) -> object:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list | tuple):
        msg = "expected a list of texts, or one text"
        raise ValueError(msg)  # noqa: TRY004 - pydantic collects ValueError, not TypeError
    return value


def _not_empty(text: str) -> str:
    if not text.strip():
        msg = "it is empty"
        raise ValueError(msg)
    return text


def _as_date(value: object) -> object:
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = dt.date.fromisoformat(value)
    if not isinstance(value, dt.date) or isinstance(value, dt.datetime):
        msg = "expected a date such as 2026-12-31"
        raise ValueError(msg)  # noqa: TRY004 - pydantic collects ValueError, not TypeError
    return value


_Text = Annotated[str, AfterValidator(_not_empty)]
_OneOrMore = BeforeValidator(_as_list)


class IgnoredCase(TomlRecord):
    """A case to leave out, by name or glob, with the reason; up to a day, or for good."""

    case: _Text
    reason: _Text
    until: Annotated[dt.date | None, BeforeValidator(_as_date)] = None
    """The last day on which it is left out."""

    def has_expired(self, today: dt.date) -> bool:
        """Say whether it counts again."""
        return self.until is not None and self.until < today


class AuditSettings(TomlRecord):
    """The table `[tool.repromatrix]` of a project; empty means what the options mean by default."""

    precisions: Annotated[tuple[Precision, ...], _OneOrMore] = ()
    models: Annotated[tuple[_Text, ...], _OneOrMore] = ()
    triggers: Annotated[tuple[Trigger, ...], _OneOrMore] = ()
    features: Annotated[tuple[_Text, ...], _OneOrMore] = ()
    fail_on: Annotated[tuple[FailOn, ...], _OneOrMore, AfterValidator(_alone)] = ()
    ignore: tuple[IgnoredCase, ...] = ()


_OPTIONS = {
    "--precision": ("precision", "precisions"),
    "--model": ("model", "models"),
    "--trigger": ("trigger", "triggers"),
    "--feature": ("feature", "features"),
}
"""The options that a key stands in for: by their names the fields of a request and of settings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UsedSettings:
    """The settings of a project, and what of them holds today."""

    file: str
    """The path of its `pyproject.toml`."""
    settings: AuditSettings
    today: dt.date

    @property
    def ignored(self) -> Mapping[str, IgnoredCase]:
        """What is left out today, by the address of its key."""
        return {at: one for at, one in self._exceptions() if not one.has_expired(self.today)}

    @property
    def expired(self) -> Mapping[str, IgnoredCase]:
        """What counts again, by the address of its key."""
        return {at: one for at, one in self._exceptions() if one.has_expired(self.today)}

    def _exceptions(self) -> Iterator[tuple[str, IgnoredCase]]:
        for number, one in enumerate(self.settings.ignore):
            yield self.key(f"ignore[{number}]"), one

    def without(self, *keys: str) -> UsedSettings:
        """Return them without the keys of this program's own question."""
        settings = self.settings.model_copy(update=dict.fromkeys(keys, ()))
        return dataclasses.replace(self, settings=settings)

    def key(self, name: str) -> str:
        """Return the address of a key, for an error."""
        return f"{self.file}: {TABLE}.{name}"

    def taken(self, typed: SelectionRequest) -> Mapping[str, tuple[str, ...]]:
        """Return by its key what stands in for options that were not typed."""
        found = {
            key: getattr(self.settings, key)
            for name, key in _OPTIONS.values()
            if not getattr(typed, name)
        }
        return {key: values for key, values in found.items() if values}

    def filled(self, request: _Request) -> _Request:
        """Return what was typed, with the settings where nothing was."""
        taken = self.taken(request)
        fields: dict[str, Any] = {
            name: taken[key] for name, key in _OPTIONS.values() if key in taken
        }
        return dataclasses.replace(request, **fields)

    def addresses(self, typed: SelectionRequest) -> Mapping[str, str]:
        """Return by option the key that stands in for it: what to name where it is wrong."""
        taken = self.taken(typed)
        return {option: self.key(key) for option, (_, key) in _OPTIONS.items() if key in taken}


def readdressed(error: RunnerError, addresses: Mapping[str, str]) -> RunnerError:
    """Return an error whose faults name a key where they would name an option."""
    faults = [
        dataclasses.replace(
            fault, where=", ".join(addresses.get(one, one) for one in fault.where.split(", "))
        )
        for fault in error.faults
    ]
    return RunnerError(faults, error.code)


def find_settings(beside: Path | None, today: dt.date) -> UsedSettings | None:
    """Return the settings of the nearest project; None where there are none.

    That is the first `pyproject.toml` with the table, from what is audited upward, then from the
    working directory upward; `beside` is None for what is no file. Raises RunnerError for one that
    cannot be read, and for every key that is wrong.
    """
    here = Path.cwd()
    folders = [here, *here.parents]
    if beside is not None:
        # A virtualenv's interpreter is a link: its folder is meant, not that of the base.
        there = Path(os.path.normpath(here / beside))
        folders = [*([there] if there.is_dir() else []), *there.parents, *folders]
    for path in dict.fromkeys(folder / NAME for folder in folders):
        # pathlib raises where a folder above may not be searched.
        table = _table(path) if os.path.isfile(path) else None  # noqa: PTH113
        if table is not None:
            where = _shown(path)
            settings = read(AuditSettings, table, where=where, prefix=TABLE)
            return UsedSettings(file=where, settings=settings, today=today)
    return None


def _table(path: Path) -> Mapping[str, Any] | None:
    where = _shown(path)
    try:
        with path.open("rb") as file:
            content = file.read(_LIMIT + 1)
    except OSError as error:
        raise refuse(Problem(where, f"the file cannot be read ({error.strerror})")) from error
    if b"repromatrix" not in content:  # no project of somebody else is checked here
        return None
    if len(content) > _LIMIT:
        raise refuse(Problem(where, f"the file is larger than {_LIMIT >> 20} MB"))
    tool = read_table(decode(content, where).removeprefix("\ufeff"), where).get("tool")
    table = tool.get("repromatrix") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise refuse(InvalidValue(f"{where}: {TABLE}", table, f"a table: [{TABLE}]"))
    return table


def _shown(path: Path) -> str:
    """Return a path as somebody in the working directory writes it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def asked_fail_on(texts: Sequence[str]) -> tuple[FailOn, ...]:
    """Return what `--fail-on` names; raises RunnerError."""
    option, choices = "--fail-on", [*FailOn]
    found = list[FailOn]()
    for text in split(texts):
        if text not in choices:
            raise refuse(InvalidValue(option, text, one_of(choices), suggestion(text, choices)))
        found.append(FailOn(text))
    try:
        return _alone(tuple(found))
    except ValueError as error:
        raise refuse(Problem(option, str(error), "Give it without any other.")) from error


def fails_build(hit: Hit, fail_on: Sequence[FailOn]) -> bool:
    """Say whether a hit fails the build; without words every hit does."""
    levels = {_LEVELS[word] for word in fail_on if word in _LEVELS}
    kinds = {_KINDS[word] for word in fail_on if word in _KINDS}
    return (
        FailOn.NONE not in fail_on
        and (not levels or any(cell.level in levels for cell in hit.stands))
        and (not kinds or hit.case.block.kind in kinds)
        and (FailOn.SILENT not in fail_on or hit.case.block.is_silent)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditTerms:
    """How an answer is told: what fails the build, the settings that were used, the site."""

    fail_on: tuple[FailOn, ...] = ()
    """Empty means that every known bug does."""
    used: UsedSettings | None = None
    taken: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By their keys the settings that stand in for options."""
    page: Callable[[str], str] = lambda _: ""
    """The address of the page of a case by its name, where the site is known."""
    everything: bool = False
    """Whether hits are listed that do not concern who asks."""
