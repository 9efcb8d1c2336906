"""One name for a model: `model_type`, class, Auto class or family, in any spelling. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_GLOB = frozenset("*?[")
_CLASS = re.compile(r"(?:For[A-Z]\w*|(?:LMHead|DoubleHeads|PreTrained|Text)?Model|Config)$")
"""What a class adds to the name of its model: `Qwen2ForCausalLM`, `GPT2LMHeadModel`."""
_BETWEEN = re.compile(r"[-_.\s]")


def spelled(name: str, known: Iterable[str]) -> str:
    """Return the known name that a name means, or the name itself where it means none of them.

    Case, `-`, `_` and `.` do not count, and a class stands for its model. A glob stays one.
    """
    typed = name.strip()
    if _GLOB & {*typed}:
        return typed.lower().replace("_", "-")
    names = {*known}
    by_spelling = {} if typed in names else {squashed(each): each for each in names}
    return by_spelling.get(squashed(typed), typed)


def squashed(name: str) -> str:
    """Return a name without its separators and what a class adds: `BLIP-2` is `blip2`."""
    return _BETWEEN.sub("", _CLASS.sub("", name).lower())
