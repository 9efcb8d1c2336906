"""Read the versions out of pasted text: what an `env` command prints, a table, lines of an issue.

Each line is read by the first pattern that fits, after what people and tools put before it: marks
of lists and quotes, prompts, timestamps, the rank of a process.

No pattern may look through a text, or a line, again from each place of it: a paste has up to 16 MB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from packaging.version import InvalidVersion, Version

from repromatrix.runner.audit.listings import on_pypi
from repromatrix.runner.audit.packages import Gathering
from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.text import join, plural, shorten

_LEAD = re.compile(
    r"\s*(?:[>|]+|[-*•+~](?=\s)|(?:\([\w.-]+\)\s*)?\S*[$%](?=\s)|\[(?:rank\d+|\d+|pip\d?|conda)\]:?"
    r"|\[?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-][\d:]+)?\]?|\N{HUGGING FACE})\s*"
)
_VERSION = r"v?(\d+(?:\.\w+)*(?:[+!-]\w+(?:\.\w+)*)?)"
_ABSENT = r"not installed|not found|not available"
_FORMS = (
    re.compile(
        rf"([A-Za-z][\w. -]*?) [Vv]ersion(?: ?\([^()]*\))?\s*[:=]\s*(?:{_VERSION}|({_ABSENT}))"
    ),
    re.compile(rf"([A-Za-z][\w.-]*)(?:\[[\w,.-]*\])?\s*==\s*{_VERSION}"),
    re.compile(rf"([A-Za-z_][\w.-]*)(?:\s{{2,}}|\t|\s*\|\s*){_VERSION}(?:\s.*|\|.*)?"),
)
"""What a line is: `NAME version: VERSION` of an `env` command, a pin, a row of a table."""
_KNOWN = (
    *("transformers", "torch", "pytorch", "accelerate", "peft", "trl", "diffusers", "tokenizers"),
    *("safetensors", "huggingface[-_]hub", "datasets", "bitsandbytes", "deepspeed", "vllm"),
    *("xformers", "torchao", "triton", "flash[-_]attn", "sentence[-_]transformers", "timm"),
    *("optimum[-_]quanto", "llamafactory", "ms[-_]swift", "unsloth[-_]zoo", "unsloth", "axolotl"),
    *("python", "numpy"),
)
_PACKAGE = rf"(?<![\w./-])({'|'.join(_KNOWN)})"
_WITHIN = re.compile(rf"{_PACKAGE}(?: ?[:=] ?| (?:is )?(?=v?\d+\.)){_VERSION}", re.IGNORECASE)
"""A known package and its version somewhere in a line, as in a banner."""
_NAMED, _NUMBER = re.compile(rf"{_PACKAGE}(?![\w/-])", re.IGNORECASE), re.compile(r"\d\.\d")
_SHOWN = re.compile(r"Name: (\S+)[ \t]*\n(.*)Version: ")
"""What `pip show` prints: a name, and its version in the next line."""
_ADDED = re.compile(r"(?m)^[ \t]*\+ [\w.-]+==")
_REMOVED = re.compile(r"(?m)^[ \t]*- [\w.-]+==.*$")
"""What `uv pip install` prints: what it took away is not installed."""
_WORDS = re.compile(r"(?m)^[^\w\n]*[A-Z]\w* (?:\w+ ){3}|^```")
"""A sentence, or the mark of a block of code: no line of a requirements file."""
_ALIASES = {"hf-hub": "huggingface-hub", "swift": "ms-swift"}
_TRACEBACK = "Traceback (most recent call last)"
_PASTE = "Paste what `pip freeze`, `pip list` or `transformers env` prints."
_FEW, _SHORT = 6, 60


class _Said(NamedTuple):
    name: str
    version: str
    """Empty where the package is said not to be installed."""


def is_pasted(text: str, *, typed: bool = False) -> bool:
    """Say whether a text is no requirements file, and names a version in another way.

    Where somebody typed it, in no file, sentences around pins say so, too.
    """
    if typed and _WORDS.search(text):
        return any(_said(line) for line, _ in _lines(text))
    return any(not is_pin and _tells(line) for line, is_pin in _lines(text))


def _tells(line: str) -> bool:
    """Say whether a line gives a version as no requirement does, not even one that is misspelt."""
    forms = any(form.match(line) for form in _FORMS)
    within = any("=" not in match[0] for match in _WITHIN.finditer(line))
    return not line.startswith("#") and (forms or within)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line without what stands before it, and whether pip reads it as it stood."""
    text = _REMOVED.sub("", text) if _ADDED.search(text) else text
    for whole in _SHOWN.sub(r"\1 version: ", text).splitlines():
        if not whole or whole.isspace():
            continue
        line, stood, at = whole.replace("`", "").replace("**", ""), whole.strip(), 0
        while lead := _LEAD.match(line, at):
            at = lead.end()
        line = line[at:].strip()
        yield line, line == stood and bool(_FORMS[1].match(line) or line.startswith(("#", "-")))


def _said(line: str) -> list[_Said]:
    """Return the versions that a line gives."""
    if line.startswith("#"):
        return []
    for form in _FORMS:
        if match := form.match(line):
            return [_Said(_name(match[1]), match[2] or "")]
    return [_Said(_name(match[1]), match[2]) for match in _WITHIN.finditer(line)]


def _name(text: str) -> str:
    name = on_pypi(text.strip().replace(" ", "-"))
    return _ALIASES.get(name, name)


def read_pasted(text: str, gathered: Gathering) -> None:
    """Read what each line of a text says of packages, in time by the length of the text."""
    became, absent, unread = dict[str, str](), set[str](), list[str]()
    for line, _ in _lines(text):
        every = _said(line)
        named = None if every else _NAMED.search(line)
        if named and _NUMBER.search(line, named.end()):
            unread.append(shorten(line, _SHORT))
        for name, version in every:
            if not version:
                absent.add(name)
            elif name == "python":
                gathered.python = ".".join(version.split(".")[:2])
            else:
                will_be = _will_be(version)
                if will_be != version:
                    became[f"{name} {version}"] = will_be
                gathered.pin(name, will_be)
    gathered.absent = absent - gathered.versions.keys()
    gathered.notes += _notes(gathered, became, unread)


def refuse_traceback(text: str, where: str) -> None:
    """Raise RunnerError where a text is a traceback: it says no versions."""
    if _TRACEBACK in text:
        raise refuse(Problem(where, "this is a traceback, without versions", _PASTE))


def _will_be(version: str) -> str:
    """Return the release that a development version becomes."""
    try:
        parsed = Version(version)
    except InvalidVersion:
        return version
    return parsed.base_version if parsed.is_devrelease else version


def _notes(gathered: Gathering, became: dict[str, str], unread: list[str]) -> Iterator[str]:
    """Yield what was read besides transformers and torch, and what was not."""
    names = sorted(gathered.versions.keys() - {"transformers", "torch"})
    read = [f"{name} {join(sorted(gathered.versions[name]))}" for name in names]
    read += [f"Python {gathered.python}"] if gathered.python else []
    if len(read) > _FEW:
        read = [*read[: _FEW - 1], f"{len(read) - _FEW + 1} more"]
    if read:
        yield f"Also read: {join(read)}."
    if gathered.absent:
        yield f"Not installed: {join(sorted(gathered.absent))}."
    for development, release in became.items():
        yield f"{development} is taken to be {release}."
    if unread:
        yield f"Not read: {plural(len(unread), 'line')}, such as {unread[0]!r}."
