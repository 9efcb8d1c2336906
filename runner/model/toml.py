"""TOML files as frozen records; every fault is collected with its address."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from packaging.requirements import Requirement
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError

from repromatrix.runner.errors import Fault, InvalidValue, Problem, RunnerError, refuse
from repromatrix.runner.model import requirements
from repromatrix.runner.text import shorten

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_LONG = 10_000
_WIDE = 80
_DEEP = re.compile(r"(?<![\w-])(?:[\w-]++\.){200}")
"""A key of so many parts, for which `tomllib` takes time by the square of their number."""

NO_TABLE = (ValueError, RecursionError)
"""What `tomllib` raises: also for a number of 5,000 digits, and for too deep a nesting."""


def read_table(text: str, where: str, fix: str = "") -> dict[str, Any]:
    """Return the table that a text holds; raises RunnerError where it is no TOML 1.0."""
    if is_too_deep(text):
        raise refuse(Problem(where, "a key has more than 200 parts", fix))
    try:
        return tomllib.loads(text)
    except NO_TABLE as error:
        raise refuse(Problem(where, f"invalid TOML: {error}", fix)) from error


def is_too_deep(text: str) -> bool:
    """Say whether to read a text would take too long."""
    return any(len(line) > _LONG and _DEEP.search(line) for line in text.split("\n"))


def _kebab(name: str) -> str:
    return name.replace("_", "-")


def _requirement(value: object) -> Requirement:
    if isinstance(value, Requirement):
        return value
    if not isinstance(value, str):
        msg = "a requirement is a string"
        raise ValueError(msg)  # noqa: TRY004 - pydantic collects ValueError, not TypeError
    return requirements.parse(value)


RequirementText = Annotated[Requirement, BeforeValidator(_requirement), PlainSerializer(str)]


class TomlRecord(BaseModel):
    """A frozen record whose keys are written in kebab-case; an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=_kebab,
        arbitrary_types_allowed=True,
        defer_build=True,  # who reads none of them saves the time to learn how
    )


R = TypeVar("R", bound=TomlRecord)


def read(record: type[R], table: Mapping[str, Any], *, where: str, prefix: str) -> R:
    """Build a record from a table; raises RunnerError with one fault per wrong key."""
    try:
        return record.model_validate(dict(table))
    except ValidationError as error:
        faults = [_fault(record, detail, where, prefix) for detail in error.errors()]
        raise RunnerError(faults) from error


def _fault(record: type[TomlRecord], detail: ErrorDetails, where: str, prefix: str) -> Fault:
    location, message = detail["loc"], detail["msg"]
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    at = f"{where}: {prefix}{key}"
    match detail["type"]:
        case "missing":
            return Problem(at, "this key is required")
        case "extra_forbidden":
            known = sorted(_kebab(name) for name in _record_at(record, location[:-1]).model_fields)
            nearest = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.0)
            guess = f"Did you mean {nearest[0]!r}? " if nearest else ""
            return Problem(at, "unknown key", f"{guess}Known keys: {', '.join(known)}.")
        case _ if message.startswith("Input should be "):
            expected = message.removeprefix("Input should be ")
            number = "a number " if expected.startswith(("greater", "less")) else ""
            return InvalidValue(at, detail["input"], number + expected)
        case _:
            value = shorten(repr(detail["input"]), _WIDE)
            reason = message.removeprefix("Value error, ")
            return Problem(at, f"invalid value {value}: {reason}")


def _record_at(record: type[TomlRecord], location: tuple[int | str, ...]) -> type[TomlRecord]:
    """Walk from a record to the record that stands at a location inside it."""
    for part in location:
        for name, field in record.model_fields.items():
            if _kebab(name) == part:
                record = next(iter(_records_in(field.annotation)), record)
    return record


def _records_in(annotation: object) -> list[type[TomlRecord]]:
    if isinstance(annotation, type) and issubclass(annotation, TomlRecord):
        return [annotation]
    return [record for part in getattr(annotation, "__args__", ()) for record in _records_in(part)]
