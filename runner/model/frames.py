"""The frames of a stored traceback, and the place in which a failure happens.

A place is `module:function`, as `transformers.models.bert.modeling_bert:BertSelfAttention.forward`.
It is read from the traceback, so evidence of any age has one.
"""

from __future__ import annotations

import functools
import re
from pathlib import PurePosixPath
from typing import NamedTuple

_FRAME = re.compile(r'^  File "([^"\n]+)", line (\d+), in (.+)(?:\n    (.+))?$', re.MULTILINE)
_INSTALLED = re.compile(r".*(?:^|/)(?:site|dist)-packages/")
_EDITABLE = re.compile(r".*?(?:^|/)src/")
_PYTHON = re.compile(r"(?:^|/)python3\.\d+/|^<")
_CASE = re.compile(r"(?:^|/)cases/[^/]+$")
_PLACE = re.compile(r"[^\W\d]\w*(?:\.\w+)*:[\w<>]+(?:\.[\w<>]+)*")
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""Frames of their own in some versions of Python alone; the frame above says what they are in."""
_EVERYBODYS = ("torch.", "torch:")
"""What computes for all: its operators raise the same error for every bug."""


class Frame(NamedTuple):
    """One frame: a file as it is inside any environment, a function with its class, its line."""

    path: str
    function: str
    statement: str = ""
    line: int = 0

    @property
    def name(self) -> str:
        """The function without its class."""
        return self.function.rpartition(".")[2]

    @property
    def is_of_python(self) -> bool:
        """Whether it lies in Python's own library, or in no file."""
        return not _INSTALLED.match(self.path) and _PYTHON.search(self.path) is not None

    @property
    def is_in_library(self) -> bool:
        """Whether it lies in an installed package, or in a tree that stands for one."""
        if _INSTALLED.match(self.path) or _EDITABLE.match(self.path):
            return True
        is_relative = "/" in self.path and not self.path.startswith("/")
        return is_relative and not self.is_of_python and not _CASE.search(self.path)

    @property
    def place(self) -> str:
        """Return its module and function: that of a case is called as the case is."""
        inside = _INSTALLED.sub("", self.path)
        path = PurePosixPath(_EDITABLE.sub("", inside) if inside == self.path else inside)
        parts = path.with_suffix("").parts[0 if self.is_in_library else -1 :]
        return f"{'.'.join(parts).removesuffix('.__init__')}:{self.function}"


def frames(traceback: str) -> tuple[Frame, ...]:
    """Return the frames of a traceback, the deepest last."""
    return tuple(
        Frame(path, function, statement, int(line))
        for path, line, function, statement in _FRAME.findall(traceback)
    )


@functools.lru_cache(maxsize=4096)
def telling_frame(traceback: str) -> Frame | None:
    """Return the frame in which a failure happens; None where its traceback names none.

    It is the deepest one in an installed library other than torch. Where none takes part, as in
    an `assert` of the case, it is the deepest one of the case itself.
    """
    named = [frame for frame in frames(traceback) if not frame.function.endswith(_COMPREHENSIONS)]
    for frame in reversed(named):  # to name a place takes long: only until one tells
        if frame.is_in_library and not frame.place.startswith(_EVERYBODYS):
            return frame
    own = (frame for frame in reversed(named) if not (frame.is_in_library or frame.is_of_python))
    return next(own, None)


@functools.lru_cache(maxsize=4096)
def place_of(traceback: str) -> str:
    """Return the place of that frame; nothing where there is none."""
    frame = telling_frame(traceback)
    return frame.place if frame else ""


def is_place(text: str) -> bool:
    """Say whether a text is written as a place is."""
    return _PLACE.fullmatch(text) is not None


def same_place(one: str, other: str) -> bool:
    """Say whether two places may be one: a function without a class stands for that of any class.

    Python before 3.11 does not know the class.
    """
    (module, function), (its_module, its_function) = one.split(":", 1), other.split(":", 1)
    shorter, longer = sorted((function, its_function), key=len)
    is_bare = "." not in shorter and longer.endswith(f".{shorter}")
    return module == its_module and (shorter == longer or is_bare)


def same_name(one: str, other: str) -> bool:
    """Say whether the functions of two places have one name, whatever their class and module."""
    return re.split(r"[.:]", one)[-1] == re.split(r"[.:]", other)[-1]
