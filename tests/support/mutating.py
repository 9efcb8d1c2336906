"""Real inputs changed at random: bytes, words, lines, nesting, and pieces of other inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st

_Test = Callable[..., None]
_WORD = re.compile(rb"[\w.+-]+|\s+|.", re.DOTALL)

HOSTILE = (
    *(b"", b"\x00", b"\xff\xfe", b"\r", b"\n", b"\\", b'"', b"'", b"#", b"=", b"==", b";", b","),
    *(b"null", b"true", b"[]", b"{}", b'""', b"-1", b"0", b"1e999", b"NaN", b"inf", b"9" * 5000),
    *(b'"\\ud800"', b"\xed\xa0\x80", "\N{FULLWIDTH DIGIT FOUR}".encode(), b"\x1b[31m"),
    *(b"[" * 3000, b"(" * 3000, b'{"a":' * 3000, b"{a=" * 3000, b"a." * 300, b"-" * 3000),
    *(b"*", b"4.50.*", b"1!4.50", b"v4.50", b"4.50.0.dev0", b"2025-02-30", b"[[package]]"),
    *(b"python_version", b"platform_release >= 'x'", b"extra == 'x'", b"../../x", b"/dev/null"),
)


def only_drawn(number: int, examples: int) -> Callable[[_Test], _Test]:
    """Run a test of hypothesis on so many inputs from a seed, and do nothing else with them."""
    how = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: seed(number)(how(test))


class Change(StrEnum):
    """What is done to a place of an input."""

    REPLACE = "replace"
    INSERT = "insert"
    DELETE = "delete"
    REPEAT = "repeat"
    FLIP = "flip"
    CUT = "cut"


class Edit(NamedTuple):
    """One change: what, where among the words, how many of them, and with which text."""

    change: Change
    place: int
    words: int
    text: bytes


PLACES = 1 << 16


def edited(content: bytes, edit: Edit) -> bytes:
    """Return an input with one change made to it."""
    words = _WORD.findall(content) or [b""]
    # Of the words, not of the spaces between them.
    told = [index for index, word in enumerate(words) if word.strip()] or [0]
    at = told[edit.place * len(told) // PLACES]
    head, here, rest = words[:at], words[at : at + edit.words], words[at + edit.words :]
    match edit.change:
        case Change.REPLACE:
            here = [edit.text]
        case Change.INSERT:
            here = [edit.text, *here]
        case Change.DELETE:
            here = []
        case Change.REPEAT:
            here = here * 3
        case Change.FLIP:
            here = [bytes(byte ^ (1 << at % 8) for byte in b"".join(here))]
        case Change.CUT:
            here, rest = [], []
    return b"".join([*head, *here, *rest])


def mutated(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return a strategy of inputs: real ones with a few changes, now and then nothing real."""
    words = sorted({word for seed in seeds for word in _WORD.findall(seed) if word.strip()})
    text = st.sampled_from(HOSTILE) | st.sampled_from(words) | st.binary(max_size=8)
    # Bytes, since integers are drawn small more often than not.
    place = st.binary(min_size=2, max_size=2).map(int.from_bytes)
    edit = st.builds(
        Edit,
        st.sampled_from([Change.REPLACE] * 6 + [Change.INSERT] * 3 + list(Change)),
        place,
        st.sampled_from([1, 1, 1, 2, 3, 10]),
        text,
    )
    changed = st.builds(_all, st.sampled_from(list(seeds)), st.lists(edit, max_size=5))
    return changed | changed | changed | st.lists(text, max_size=8).map(b"".join)


def _all(content: bytes, edits: Sequence[Edit]) -> bytes:
    for edit in edits:
        content = edited(content, edit)
    return content
