"""YAML and JSON that others wrote, as plain values: bounded in time, memory and depth."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.text import shorten

MOST = 1_500_000
"""Values of a YAML file, for two seconds of reading; a lock of 10 MB has half a million."""
_SURROGATE = re.compile(r"\\u[dD][89abAB]")


def read_yaml(text: str, where: str, fix: str) -> object:
    """Return the lists, mappings and texts of a YAML document; every scalar is a text.

    So the version 1.10 stays what it is. Raises RunnerError with the line.
    """
    import yaml  # noqa: PLC0415 - most files do without

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return _built(yaml.parse(text, Loader=loader), where)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"{where}: line {mark.line + 1}" if mark else where
        raise refuse(Problem(at, f"invalid YAML: {error.problem or error.context}", fix)) from error
    except yaml.YAMLError as error:
        reason = getattr(error, "reason", "unknown")
        raise refuse(Problem(where, f"invalid YAML: {reason}", fix)) from error


def _built(events: Iterable[Any], where: str) -> object:
    """Put the events of a parser together, without a call per depth."""
    stack = list[list[Any]]([[]])
    for count, event in enumerate(events):
        kind = type(event).__name__
        if kind == "ScalarEvent":
            stack[-1].append(event.value)
        elif kind in {"SequenceStartEvent", "MappingStartEvent"}:
            stack.append([])
        elif kind == "SequenceEndEvent":
            stack[-2].append(stack.pop())
        elif kind == "MappingEndEvent":
            stack[-2].append(_mapping(stack.pop()))
        refused = _refused(kind, event) if count < MOST else _TOO_MANY
        refused = _TOO_DEEP if len(stack) > _DEEPEST else refused
        if refused and (kind != "DocumentStartEvent" or stack[0]):
            raise refuse(Problem(f"{where}: line {event.start_mark.line + 1}", *refused))
    return stack[0][0] if stack[0] else None


_DEEPEST = 100
_TOO_DEEP = "it is nested too deeply", "Check that it is a lock."
_TOO_MANY = f"the file has more than {MOST:,} values", "Check that it is a lock."


def _refused(kind: str, event: Any) -> tuple[str, str] | None:  # noqa: ANN401 - of either parser
    """Return what is not read, and what to do.

    No tool writes aliases into a lock, and a file of a few lines can stand for billions with them.
    """
    if kind == "AliasEvent":
        what = f"the alias `*{shorten(event.anchor, 40)}` cannot be read"
        return what, "Write out what it stands for."
    if kind == "DocumentStartEvent":
        return "a second document begins here", "Make a file for each environment."
    return None


def _mapping(items: list[Any]) -> dict[str, Any]:
    pairs = zip(items[::2], items[1::2], strict=True)
    return {key: value for key, value in pairs if isinstance(key, str)}


def read_json(text: str, where: str, fix: str) -> object:
    """Return what a JSON document holds; raises RunnerError with the line."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        at = f"{where}: line {error.lineno}"
        raise refuse(Problem(at, f"invalid JSON: {error.msg}", fix)) from error
    except ValueError as error:  # a number of 5,000 digits
        raise refuse(Problem(where, f"invalid JSON: {error}", fix)) from error
    except RecursionError as error:
        raise refuse(Problem(where, "it is nested too deeply", fix)) from error
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            what = "invalid JSON: half of a character (an unpaired surrogate)"
            raise refuse(Problem(where, what, fix)) from error
    return value
