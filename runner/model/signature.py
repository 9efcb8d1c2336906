"""The normalised identity of a failure: what stays the same when only sizes and places change."""

from __future__ import annotations

import re

NOISE = (
    (re.compile(r"0x[0-9a-fA-F]+"), "<address>"),
    (re.compile(r"(?:[A-Za-z]:)?(?:/[\w.+@~-]+){2,}/?"), "<path>"),
    (re.compile(r"\bline \d+"), "line <n>"),
    (re.compile(r"\b\d+(?:\.\d+)?\s?(?:ms|s|seconds?|minutes?|[KMGT]i?B|bytes)\b"), "<amount>"),
    (re.compile(r"(?:torch\.Size\()?\[\s*\d+(?:\s*[,x]\s*\d+)*\s*\]\)?"), "<shape>"),
    (re.compile(r"\(\s*\d+(?:\s*[,x]\s*\d+)+,?\s*\)"), "<shape>"),
    (re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]*\w)"), "<n>"),
)
_LIMIT = 300


def signature(error_class: str, message: str) -> str:
    """Return class and message without sizes, addresses, paths, line numbers and times.

    Names of dtypes and operators stay: `float16` and `index_copy_` tell one bug from another.
    """
    text = " ".join(message.split())
    while (cleaner := _without_noise(text)) != text:  # what is taken out may uncover more
        text = cleaner
    return f"{error_class}: {text}"[:_LIMIT].rstrip()


def _without_noise(text: str) -> str:
    for pattern, replacement in NOISE:
        text = pattern.sub(replacement, text)
    return text
