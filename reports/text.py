"""Small pieces of text for pages: release spans, numbers, links, and foreign text made harmless."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from repromatrix.runner.model.case import CaseKind, variant_of

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from repromatrix.runner.model.case import Case

_NAME = 80


def filed(name: str) -> str:
    """Return a foreign name as the name of a file."""
    safe = in_address(name).replace("%", "-")
    if safe == name and len(name) <= _NAME and not name.startswith("."):
        return name
    return f"{safe[:_NAME].lstrip('.')}-{hashlib.sha256(repr(name).encode()).hexdigest()[:8]}"


def family_path(model: str) -> str:
    """Return the path of the page of a family of models."""
    return f"model/{filed(model)}.html"


def link_to_family(model: str) -> Link:
    """Return the link to the page of a family of models, from the first page."""
    return Link(text=visible(model), href=f"model/{in_address(filed(model))}.html")


_TRACKER = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)/?$")
# Control characters become their pictures. Those that turn the direction of writing are taken out
# of sight as well: with them a message can show a reader something else than what was raised.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
_TURNS = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)
_VISIBLE = _PICTURES | _TURNS


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A text with an address; the address is empty where the text cannot be followed."""

    text: str
    href: str

    @property
    def address(self) -> str:
        """Where it leads, or what it says where it cannot be followed."""
        return self.href or self.text


def link_to(address: str) -> Link:
    """Return a link for an address; anything but http and https stays text."""
    found = _TRACKER.fullmatch(address)
    try:
        followed = urlsplit(address).scheme in {"http", "https"}
    except ValueError:
        followed = False
    text = f"{found[1]}#{found[2]}" if found else address.removeprefix("https://")
    return Link(text=visible(text), href=address if followed else "")


def visible(text: str) -> str:
    """Return a foreign text with every character that acts on the reader's screen made visible."""
    # Nearly every text is printable as it is, and translating one takes ten times as long.
    return text if text.isprintable() else text.replace("\r\n", "\n").translate(_VISIBLE)


@lru_cache(maxsize=4096)
def shortened(text: str, limit: int) -> str:
    """Return a foreign text as one line of at most `limit` characters."""
    line = visible(" ".join(text[: 4 * limit].split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def excerpt(text: str, limit: int) -> str:
    """Return both ends of a foreign text that is too long, and say how much is left out."""
    if len(text) <= limit:
        return visible(text)
    left_out = f"\n… {len(text) - limit:,} characters left out …\n"
    return visible(text[: limit // 2]) + left_out + visible(text[-(limit // 2) :])


def paragraphs(text: str) -> tuple[str, ...]:
    """Return the paragraphs of a text, each as one line."""
    return tuple(" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip())


def spans(names: Iterable[str], places: Mapping[str, int]) -> str:
    """Return names as spans of neighbours: `4.50.0 to 4.50.3, 4.52.1`.

    `places` has the place of each name in their order; names without one are left out.
    """
    runs: list[list[str]] = []
    previous = -2
    for position, name in sorted((places[name], name) for name in {*names} & places.keys()):
        if position != previous + 1:
            runs.append([])
        runs[-1].append(name)
        previous = position
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def requirements_words(requirements: Iterable[Requirement]) -> str:
    """Return requirements as a list, lower bounds first; packaging sorts `<` before `>=`."""
    words = []
    for requirement in requirements:
        bounds = sorted(str(bound) for bound in requirement.specifier)
        words.append(str(requirement).replace(",".join(bounds), ",".join(reversed(bounds))))
    return ", ".join(words)


def number(value: float) -> str:
    """Return a measured number with as many digits as a reader compares."""
    return f"{value:.4g}"


def kinds(case: Case) -> tuple[str, ...]:
    """Return what triggers a case and what is seen, in words for its chips."""
    names = [str(name) for name in (*case.block.triggers, *case.block.symptoms)]
    names += ["intended"] if case.block.kind is not CaseKind.BUG else []
    return tuple(name.replace("-", " ") for name in names)


def for_variant(case: str) -> str:
    """Return what a command begins with that runs one variant of a case; empty without any."""
    variant = variant_of(case)
    return f"REPRO_VARIANT={variant} " if variant else ""


def in_address(name: str) -> str:
    """Return a name as one segment, or the fragment, of a relative address."""
    return quote(name, safe="+", errors="replace")


def in_path(path: str) -> str:
    """Return the path of a file as a relative address."""
    return "/".join(map(in_address, path.split("/")))


def page_of(case: str) -> str:
    """Return the address of the page of a case, from the first page."""
    return f"case/{in_address(case)}.html"
