"""TOML files as frozen records; every fault is collected with its address."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from packaging.requirements import Requirement
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError

from repromatrix.runner.errors import Fault, OldFault, RunnerError, refuse
from repromatrix.runner.model import requirements

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_LONG = 10_000
_DEEP = re.compile(r"(?<![\w-])(?:[\w-]++\.){200}")
"""A key of so many parts, for which `tomllib` takes time by the square of their number."""

NO_TABLE = (ValueError, RecursionError)
"""What `tomllib` raises: also for a number of 5,000 digits, and for too deep a nesting."""


def read_table(text: str, where: str, key: str = "", remedy: str = "") -> dict[str, Any]:
    """Return the table that a text says; raises RunnerError."""
    if is_too_deep(text):
        found = "a line with a key of more than 200 parts"
        raise _refused(where, key, found, remedy)
    try:
        return tomllib.loads(text)
    except NO_TABLE as error:
        raise _refused(where, key, str(error), remedy) from error


def is_too_deep(text: str) -> bool:
    """Say whether to read a text would take too long."""
    return any(len(line) > _LONG and _DEEP.search(line) for line in text.split("\n"))


def _refused(where: str, key: str, found: str, remedy: str) -> RunnerError:
    return refuse(OldFault(where=where, key=key, found=found, allowed="TOML 1.0", fix=remedy))


def _kebab(name: str) -> str:
    return name.replace("_", "-")


def _requirement(value: object) -> Requirement:
    if isinstance(value, Requirement):
        return value
    if not isinstance(value, str):
        msg = "a requirement is written as a string"
        raise ValueError(msg)  # noqa: TRY004 - pydantic collects ValueError, not TypeError
    return requirements.parse(value)


RequirementText = Annotated[Requirement, BeforeValidator(_requirement), PlainSerializer(str)]


class TomlRecord(BaseModel):
    """A frozen record whose keys are written in kebab-case; an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=_kebab, arbitrary_types_allowed=True
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
    location = detail["loc"]
    key = prefix + "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in location
    )
    match detail["type"]:
        case "missing":
            return OldFault(where=where, key=key, found="nothing", allowed="this key is required")
        case "extra_forbidden":
            return _unknown_key(record, location, where, key)
        case "value_error":
            reason = detail["msg"].removeprefix("Value error, ")
            return OldFault(where=where, key=key, found=repr(detail["input"]), allowed=reason)
        case _:
            return OldFault(
                where=where, key=key, found=repr(detail["input"]), allowed=detail["msg"]
            )


def _unknown_key(
    record: type[TomlRecord], location: tuple[int | str, ...], where: str, key: str
) -> Fault:
    known = sorted(_kebab(name) for name in _record_at(record, location[:-1]).model_fields)
    name = str(location[-1])
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return OldFault(
        where=where,
        key=key,
        found=f"the unknown key {name!r}",
        allowed=", ".join(known),
        fix=f"Did you mean {nearest[0]!r}?" if nearest else "",
    )


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
