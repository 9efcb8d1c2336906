"""Real inputs changed at random: words of them replaced, removed, or joined by others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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


class Edit(NamedTuple):
    """One change: from which place on how many words go, and the text that comes there."""

    place: int
    words: int
    text: bytes


PLACES, ALL = 1 << 16, 1 << 16


def edited(content: bytes, edits: Sequence[Edit]) -> bytes:
    """Return an input with changes made to it, one after the other."""
    for place, count, text in edits:
        words = _WORD.findall(content) or [b""]
        # Of the words, not of the spaces between them.
        begins = [index for index, word in enumerate(words) if word.strip()] or [0]
        at = begins[place * len(begins) // PLACES]
        content = b"".join([*words[:at], text, *words[at + count :]])
    return content


def mutated(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return a strategy of inputs: real ones with a few changes, now and then nothing real."""
    words = sorted({word for seed in seeds for word in _WORD.findall(seed) if word.strip()})
    text = st.sampled_from(HOSTILE) | st.sampled_from(words) | st.binary(max_size=8)
    # Bytes, since integers are drawn small more often than not.
    place = st.binary(min_size=2, max_size=2).map(int.from_bytes)
    edit = st.builds(Edit, place, st.sampled_from([0, 0, 1, 1, 1, 1, 2, 3, 10, ALL]), text)
    changed = st.builds(edited, st.sampled_from(list(seeds)), st.lists(edit, max_size=5))
    return changed | changed | changed | st.lists(text, max_size=8).map(b"".join)
