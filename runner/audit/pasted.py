"""Read the versions out of pasted text: what an `env` command prints, a table, lines of an issue.

Each line is read by the first pattern that fits, after what people and tools put before it: marks
of lists and quotes, prompts, timestamps, the rank of a process. *Check my versions* and the search
read by the same `PATTERNS`, in `reports/static/pins.js`.

No pattern may look through a text, or a line, again from each place of it: a paste has up to 16 MB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from repromatrix.runner.audit.listings import ON_PYPI
from repromatrix.runner.audit.packages import Gathering
from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.text import join

_VERSION = r"v?(\d+(?:\.\w+)*(?:[+!-]\w+(?:\.\w+)*)?)"
_KNOWN = (
    *("transformers?", "torch", "pytorch", "accelerate", "peft", "trl", "diffusers", "tokenizers"),
    *("safetensors", "huggingface[-_]hub", "datasets", "bitsandbytes", "deepspeed", "vllm"),
    *("xformers", "torchao", "triton", "flash[-_]attn", "sentence[-_]transformers", "timm"),
    *("optimum[-_]quanto", "llamafactory", "ms[-_]swift", "unsloth[-_]zoo", "unsloth", "axolotl"),
    *("python", "numpy"),
)
_NAME, _NAMES = r"([A-Za-z][\w.-]*)", f"({'|'.join(_KNOWN)})"
_NO_PACKAGE = r"(?!(?:cuda|cudnn|nvidia|nccl|rocm|driver|kernel|gcc|clang|cmake|libc|os)(?![\w.-]))"
PATTERNS = {
    "breaks": r"\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]",
    # What `uv pip install` prints: what it took away is not installed.
    "added": r"^[ \t]*\+ [\w.-]+==",
    "removed": r"^[ \t]*- [\w.-]+==.*$",
    # What `pip show` prints, and a name above its version.
    "shown": r"^Name: ([^ \t\n]+)[ \t]*\n(?:.*)Version: |^[ \t]*"
    + _NAMES
    + r"[ \t]*\n(?=v?\d+\.\d)",
    # A sentence, or the mark of a block of code: no line of a requirements file.
    "words": r"^[^\w\n#]*[a-z]\w* (?:\w+ ){3}|^```|[\u4e00-\u9fff]",
    "lead": (
        r"[ \t]*(?:[>|]+|[-*•+~](?=[ \t])|-(?=[a-z]{2})|(?:\([\w.-]+\)[ \t]*)?[^ \t]*[$%](?=[ \t])"
        r"|\[(?:rank\d+|default\d+|\d+|pip\d?|conda|bug|issue)\]:?|\[\w+\.py:\d+\]|🤗"
        r"|\[?(?:debug|info|warning|error)(?:\|[^\]\n]{0,80})?(?:\]:?|:|(?=[ \t]))"
        r"|\[?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-][\d:]+)?\]?"
        r"|\[?(?:\d\d-\d\d )?\d\d:\d\d:\d\d[\d.,]*\]?"
        r"|[a-z]{3} [ \d]\d \d\d:\d\d:\d\d [^ \t]+ [^ \t:\[]+(?:\[\d+\])?:)[ \t]*"
    ),
    "skip": (
        r"#|attempting uninstall|found existing|(?:successfully )?uninstall|collecting |downloading"
        r"|using cached"
    ),
    "installed": "successfully installed ",
    "archive": r"(?<![^ \t])([A-Za-z][\w.-]*?)-(\d[\w.+!]*)(?![^ \t])",
    # What a line is. After the pin: `NAME version: VERSION` of an `env` command, a row of a table.
    "pin": _NAME + r"(?:\[[\w,.-]*\])?[ \t]*==[ \t]*" + _VERSION,
    "have": rf"{_NAMES}[ \t]+v?\d[^()]*\(you have {_VERSION}\)",
    "satisfied": (
        rf"requirement already satisfied: {_NAME}[^()]*(?:\(from [^()]*\)[ \t]*)?\({_VERSION}\)"
    ),
    "version": (
        rf"{_NO_PACKAGE}([A-Za-z][\w. -]*?) version(?: ?\([^()]*\))?[ \t]*[:=][ \t]*(?:{_VERSION}"
        "|(not installed|not found|not available))"
    ),
    "row": _NO_PACKAGE
    + r"([A-Za-z_][\w.-]*)(?:[ \t]{2,}|\t|[ \t]*\|[ \t]*)"
    + _VERSION
    + r"(?:[ \t].*|\|.*)?$",
    # A known package and its version somewhere in a line, as in a banner.
    "within": (
        rf"(?<![\w./-]){_NAMES}"
        r"(?:[ \t]*(?:版本)?(?:==?|:|\uff1a|号|是|为)[ \t]*|[ \t](?:is )?(?=v?\d+\.))" + _VERSION
    ),
    # What stands before a version that is another one than the installed.
    "other": (
        r"(?:from|than|before|until|after|since|instead of|fixed in|works? (?:on|in|with)"
        r"|grad(?:e|ed|ing) to|build|built for)[ \t]{1,3}$"
    ),
    "named": rf"(?<![\w./-]){_NAMES}(?![\w/-])",
    "number": r"\d\.\d",
}
"""Regular expressions that mean the same in JavaScript (`im`): ASCII, and no `\\s`."""
ALIASES = ON_PYPI | {
    "hf-hub": "huggingface-hub",
    "swift": "ms-swift",
    "transformer": "transformers",
}
_READ = {
    name: re.compile(text, re.ASCII | re.IGNORECASE | re.MULTILINE)
    for name, text in PATTERNS.items()
}
_FORMS = tuple(_READ[name] for name in ("pin", "have", "satisfied", "version", "row"))
_WINDOW = 24
_TRACEBACK = "Traceback (most recent call last)"
_PASTE = "Paste what `pip freeze`, `pip list` or `transformers env` prints."
_FEW = 6


class _Said(NamedTuple):
    name: str
    version: str
    """Empty where the package is said not to be installed."""
    is_prose: bool = False
    """Whether it stands somewhere in a line: what a line gives by its form counts more."""


def is_pasted(text: str, *, typed: bool = False) -> bool:
    """Say whether a text is no requirements file, and names a version in another way.

    Where somebody typed it, in no file, sentences around pins say so, too.
    """
    if typed and _READ["words"].search(text):
        return any(_said(line) for line, _ in _lines(text))
    return any(not is_pin and _tells(line) for line, is_pin in _lines(text))


def _tells(line: str) -> bool:
    """Say whether a line gives a version as no requirement does, not even one that is misspelt."""
    forms = any(form.match(line) for form in _FORMS)
    within = any("=" not in match[0] for match in _READ["within"].finditer(line))
    return not line.startswith("#") and (forms or within)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line without what stands before it, and whether pip reads it as it stood."""
    text = _READ["breaks"].sub("\n", text)
    text = _READ["removed"].sub("", text) if _READ["added"].search(text) else text
    for whole in _READ["shown"].sub(r"\1\2 version: ", text).split("\n"):
        line, stood, at = whole.replace("`", "").replace("**", ""), whole.strip(" \t"), 0
        while (lead := _READ["lead"].match(line, at)) and lead.end() > at:
            at = lead.end()
        if line := line[at:].strip(" \t"):
            yield line, line == stood and bool(_FORMS[0].match(line) or line[0] in "#-")


def _said(line: str) -> list[_Said]:
    if _READ["skip"].match(line):
        return []
    if _READ["installed"].match(line):
        return [_Said(_name(match[1]), match[2]) for match in _READ["archive"].finditer(line)]
    for form in _FORMS:
        if match := form.match(line):
            return [_Said(_name(match[1]), match[2] or "")]
    return [
        _Said(_name(match[1]), match[2], is_prose=True)
        for match in _READ["within"].finditer(line)
        if not _READ["other"].search(line[max(0, match.start() - _WINDOW) : match.start()])
    ]


def _name(text: str) -> str:
    name = canonicalize_name(text.strip(" ").replace(" ", "-"))
    return ALIASES.get(name, name)


def read_pasted(text: str, gathered: Gathering) -> None:
    """Read what each line of a text says of packages, in time by the length of the text."""
    said, became = list[_Said](), dict[str, str]()
    for line, _ in _lines(text):
        every = _said(line)
        named = None if every or _READ["skip"].match(line) else _READ["named"].search(line)
        if named and _READ["number"].search(line, named.end()):
            gathered.unread.append(line)
        said += every
    formal = {one.name for one in said if not one.is_prose and one.version}
    for name, version, is_prose in said:
        if not version or (is_prose and name in formal):
            continue
        if name == "python":
            gathered.python = ".".join(version.split(".")[:2])
            continue
        will_be = _will_be(version)
        if will_be != version:
            became[f"{name} {version}"] = will_be
        gathered.pin(name, will_be)
    absent = {one.name for one in said if not one.version}
    gathered.absent = absent - gathered.versions.keys()
    gathered.notes += _notes(gathered, became)


def refuse_traceback(text: str, where: str) -> None:
    """Raise RunnerError where a text is a traceback: it says no versions."""
    if _TRACEBACK in text:
        raise refuse(Problem(where, "this is a traceback, without versions", _PASTE))


def _will_be(version: str) -> str:
    try:
        parsed = Version(version)
    except InvalidVersion:
        return version
    return parsed.base_version if parsed.is_devrelease else version


def _notes(gathered: Gathering, became: dict[str, str]) -> Iterator[str]:
    """Yield what was read besides transformers and torch."""
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
