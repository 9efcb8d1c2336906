"""A case's text with other `fails` entries: comments, order and everything else stay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runner.errors import Fault, refuse
from runner.model.script import parse_script

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HEAD = "# /// script\n"
_KEYS = ("when", "precisions", "devices", "workarounds", "outcome", "raises", "match")
"""The keys that are written; `fixed-by` and `note` are a person's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """One entry as it is to stand: its keys, and the number of the one whose place it takes."""

    keys: Mapping[str, Any] = field(default_factory=dict)
    replaces: int | None = None


def rewritten(text: str, where: str, kept: Sequence[int], entries: Sequence[Written]) -> str:
    """Return the text of a case in which only the kept and the given entries stand.

    Raises RunnerError when the block cannot be edited without touching anything else.
    """
    import tomlkit  # noqa: PLC0415 - only those who accept need it

    script = parse_script(text, where)
    content = script.block.removeprefix(_HEAD).removesuffix("# ///")
    document = tomlkit.parse(_bare(content))
    table = document["tool"]["repromatrix"]
    found = table.get("fails", [])
    replacing = {entry.replaces: entry for entry in entries if entry.replaces is not None}
    for number in reversed(range(len(found))):
        if number in replacing:
            _set(found[number], replacing[number].keys)
        elif number not in kept:
            del found[number]
    if "fails" in table and not found:
        del table["fails"]
    body = tomlkit.dumps(document).rstrip("\n") + "\n"
    fresh = [_entry(entry.keys) for entry in entries if entry.replaces is None]
    body = _inserted(body, fresh)
    block = _HEAD + _commented(body) + "# ///"
    result = text.replace(script.block, block, 1)
    _held(result, where, len(set(kept) | set(replacing)) + len(fresh))
    return result


def _bare(content: str) -> str:
    lines = content.splitlines(keepends=True)
    return "".join(line[2:] if line.startswith("# ") else line[1:] for line in lines)


def _commented(body: str) -> str:
    return "".join(f"# {line}".rstrip() + "\n" for line in body.splitlines())


def _set(table: Any, keys: Mapping[str, Any]) -> None:  # noqa: ANN401 - a table of tomlkit
    for key in _KEYS:
        if key not in keys:
            table.pop(key, None)
        elif table.get(key) != keys[key]:
            table[key] = keys[key]


def _entry(keys: Mapping[str, Any]) -> str:
    lines = [f"{key} = {_value(keys[key])}" for key in _KEYS if key in keys]
    return "\n".join(["[[tool.repromatrix.fails]]", *lines, ""])


def _value(value: Any) -> str:  # noqa: ANN401 - a string or a list of strings
    import tomlkit  # noqa: PLC0415

    if isinstance(value, str):
        return str(tomlkit.item(value).as_string())
    inside = [_value(one) for one in value]
    line = f"[{', '.join(inside)}]"
    return line if len(line) < 80 else "[\n" + "".join(f"    {one},\n" for one in inside) + "]"  # noqa: PLR2004


def _inserted(body: str, fresh: Sequence[str]) -> str:
    """Put new entries behind the last one, or before the claims, or at the end."""
    if not fresh:
        return body
    blocks = body.rstrip("\n").split("\n\n")
    heads = [block.lstrip().partition("\n")[0] for block in blocks]
    last = max(
        (at for at, head in enumerate(heads) if head.startswith("[[tool.repromatrix.fails")),
        default=-1,
    )
    claims = [at for at, head in enumerate(heads) if head.startswith("[[tool.repromatrix.claims")]
    place = last + 1 if last >= 0 else (claims[0] if claims else len(blocks))
    new = [entry.rstrip("\n") for entry in fresh]
    return "\n\n".join([*blocks[:place], *new, *blocks[place:]]) + "\n"


def _held(text: str, where: str, number: int) -> None:
    """Read what was written: a block that is edited wrongly is never put in its place."""
    table = parse_script(text, where).table["tool"]["repromatrix"]
    if len(table.get("fails", [])) != number:
        found = f"{len(table.get('fails', []))} entries after the edit, {number} meant"
        allowed = "a block whose `fails` are tables of their own"
        raise refuse(Fault(where=where, key="fails", found=found, allowed=allowed))
