"""JSON that others wrote, as plain values."""

from __future__ import annotations

import json
import re

from repromatrix.runner.errors import Problem, refuse

_SURROGATE = re.compile(r"\\u[dD][89abAB]")


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
