"""Ids of special tokens in a small vocabulary.

Works on the nested dictionary that a config writes, as `fields` does.
"""

from __future__ import annotations

import re
from typing import Any

from repromatrix.sweep.child.fields import Tree, is_config, kind_of, nodes

_PLACEHOLDER = re.compile(r"^(image|video|audio)_token_(id|index)$")
_FIRST = 5
"""Ids below are special in most vocabularies, whatever the config says."""


def move_tokens(tree: Tree) -> dict[int, int]:
    """Move ids of special tokens that lie beyond the small vocabulary to its end, in place.

    The same old id gets the same new one everywhere. Returns what was moved.
    """
    taken = {value for _, node in nodes(tree) for value in _tokens(node).values()}
    moved: dict[int, int] = {}
    _move_tokens(tree, vocabulary_of(tree), taken, moved)
    return moved


def vocabulary_of(tree: Tree) -> int:
    """Return the size of the vocabulary that text is of; 0 where there is none."""
    found = [
        (("text" in path or "decoder" in path, -len(path)), node["vocab_size"])
        for path, node in nodes(tree)
        if isinstance(node.get("vocab_size"), int)
    ]
    own = tree.get("vocab_size")
    return own if isinstance(own, int) and own else max(found, default=((), 0))[1]


def _tokens(node: Tree) -> dict[str, int]:
    return {
        name: value
        for name, value in node.items()
        if kind_of(name) == "token" and isinstance(value, int) and not isinstance(value, bool)
    }


def _move_tokens(node: Tree, vocabulary: int, taken: set[int], moved: dict[int, int]) -> None:
    own = node.get("vocab_size")
    size = own if isinstance(own, int) and own else vocabulary
    for name, value in node.items():
        if is_config(value):
            _move_tokens(value, size, taken, moved)
        elif kind_of(name) == "token" and size:
            if isinstance(value, list):
                node[name] = [_new_id(one, size, taken, moved) for one in value]
            else:
                node[name] = _new_id(value, size, taken, moved)


def _new_id(value: Any, size: int, taken: set[int], moved: dict[int, int]) -> Any:
    if not isinstance(value, int) or isinstance(value, bool) or value < size:
        return value
    if value not in moved:
        free = next((one for one in range(size - 1, -1, -1) if one not in taken), size - 1)
        moved[value] = free
        taken.add(free)
    return min(moved[value], size - 1)


def special_tokens(tree: Tree) -> set[int]:
    """Return all ids that mean something: none of them belongs into random text."""
    return {
        one
        for _, node in nodes(tree)
        for name, value in node.items()
        if kind_of(name) == "token"
        for one in (value if isinstance(value, list) else [value])
        if isinstance(one, int)
    }


def plain_token(tree: Tree) -> tuple[list[int], int]:
    """Return the ids that mean something, and one that does not."""
    special = special_tokens(tree)
    return sorted(special), min({*range(_FIRST, _FIRST + len(special) + 1)} - special)


def place_tokens(tree: Tree) -> None:
    """Give tokens of images, videos and audio that a config leaves open an id, in place."""
    for _, node in nodes(tree):
        for name in list(node):
            size = vocabulary_of(tree)
            if node[name] is None and size and _PLACEHOLDER.match(name):
                free = set(range(size)) - special_tokens(tree)
                node[name] = max(free)
