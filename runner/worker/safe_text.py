"""The words of a report, read from what a case may have made hostile or broken."""

from __future__ import annotations

import builtins
import collections
import json
import os
import sys
import traceback
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep  # noqa: PTH100, PTH120 - bound early
_MESSAGE = 20_000
_TRACEBACK = 20_000
_FRAMES = 2_000
_NUMBERS = 500
_WORD = 300
_PATH = 4096
"""PATH_MAX of <linux/limits.h>: a path that is cut off would be no file of its environment."""

called = type.__dict__["__name__"].__get__
"""Return what a class is called, whatever its metaclass says."""

_whole: list[tuple[dict[str, Any], dict[str, Any]]] = []
"""The names of what a report is made with, and what they stood for."""


class Encoder(json.JSONEncoder):
    """An encoder of its own: a case may replace the methods of the one that it finds."""

    encode = json.JSONEncoder.encode
    iterencode = json.JSONEncoder.iterencode
    default = json.JSONEncoder.default


def remember() -> None:
    """Keep what a report is made with, before a case may break it."""
    # Not `linecache`: torch.fx replaces a function of it, to show the code that it generates.
    needed = (builtins, collections, json, json.encoder, os, traceback)
    _whole[:] = [(vars(module), dict(vars(module))) for module in needed]


def mend() -> None:
    """Put back what the case may have broken of it."""
    for names, before in _whole:
        names.update(before)


def text(value: object) -> str:
    """Return an object as text that can be stored, be it hostile."""
    try:
        return _valid(str(value)[:_MESSAGE])
    except BaseException as other:  # noqa: BLE001 - what a case's own class raises
        return f"<its message cannot be read: {called(type(other))}>"


def frames(error: BaseException) -> str:
    """Return the traceback of an exception without its message, as it would be without us.

    Of many frames the last. A method is named with its class, where Python knows it (from 3.11 on):
    a module of models has a `forward` in each. The witness stands between torch and its operator,
    which adds a frame of its own behind it.
    """
    kept: list[traceback.FrameSummary] = []
    ours = False
    try:
        walked = traceback.walk_tb(error.__traceback__)
        for frame, line in collections.deque(walked, _FRAMES):
            code = frame.f_code
            behind, ours = ours, code.co_filename.startswith(_HERE)
            if not ours and not (behind and code.co_filename.endswith("/torch/_ops.py")):
                name = getattr(code, "co_qualname", code.co_name)
                kept.append(traceback.FrameSummary(code.co_filename, line, name))
        return _valid("".join(traceback.format_list(kept))[-_TRACEBACK:])
    except BaseException as other:  # noqa: BLE001 - what a case's own class raises
        return f"<its traceback cannot be read: {called(type(other))}>"


def _valid(text: str) -> str:
    """Write out what no file and no database takes: the undecodable bytes of a file name."""
    return text.encode("utf-8", "backslashreplace").decode()


def numbers(found: object) -> dict[str, float]:
    """Return the numbers of what a case measured, as many as can be told."""
    if not isinstance(found, dict):
        return {}
    numbers: dict[str, float] = {}
    for name, value in found.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                numbers[text(name)[:_WORD]] = float(value)
            except OverflowError:
                continue
        if len(numbers) == _NUMBERS:
            break
    return numbers


def about(attribute: str) -> dict[str, str]:
    """Return an attribute of the packages under test that were really imported."""
    found: dict[str, str] = {}
    # `UNDER_TEST` of model/packages.py, which a worker does not import; a test holds them equal.
    for name in ("torch", "transformers", "accelerate", "peft"):
        value: Any = getattr(sys.modules.get(name), attribute, None)
        if value:
            found[name] = text(value)[:_PATH]
    return found
