"""Plant passwords in addresses, files and variables, and search everything that is written."""

from __future__ import annotations

import argparse
import base64
import contextlib
import re
import secrets
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from toy_index import serving
from toys import Checkout, made, made_wheels

from checks.table import Table

_LOOK = 0.01
TELLER = "toy_teller"
_TELLS = """import os, sys

import transformers

print(dict(os.environ), sys.argv, open("/proc/self/environ").read())
raise ValueError(repr(dict(os.environ)))
"""
PLACES = (
    *("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX"),
    *("PIP_FIND_LINKS", "UV_FIND_LINKS", "pip.conf", "ALL_PROXY", "PIP_PROXY", ".netrc"),
)
TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "GITHUB_TOKEN", "UV_PUBLISH_TOKEN")
_TELLING = (("publish",), ("report",), ("results", "--wide"), ("results", "--format", "json"))
_LEFT_OUT = {".user", ".cache"}
"""Where the user keeps the secrets, and what the installer keeps for itself."""


class Secret:
    """A password that stands in one place, in all forms in which it could be written."""

    def __init__(self, place: str) -> None:
        """Draw one; its core holds only what no quoting changes."""
        self.place = place
        self.core = f"Kx{secrets.token_hex(12)}"
        self.word = f"p@{self.core}/%"
        self.quoted = f"p%40{self.core}%2F%25"
        shifted = (base64.b64encode(b"\0" * n + self.core.encode())[n + 2 : -4] for n in range(3))
        self.forms = (self.core.encode(), *shifted, self.core.encode().hex().encode())

    def is_in(self, content: bytes) -> bool:
        """Say whether it stands in some bytes."""
        return any(form in content for form in self.forms)


def check(table: Table, _options: argparse.Namespace) -> None:
    """Plant a secret in every place, one after the other."""
    planted, leaks, unused = tried(PLACES)
    table.count("secrets planted", planted, "found", len(leaks))
    table.count("secrets planted", planted, "never shown to the index, though needed", unused)


def tried(places: Sequence[str]) -> tuple[int, list[str], int]:
    """Plant secrets; return how many, where one was found, and how many were never used."""
    planted, leaks, unused = 0, [], 0
    with tempfile.TemporaryDirectory(prefix="secrets-") as name:
        wheels = made_wheels(Path(name) / "wheels")
        for place in places:
            hidden = [Secret(place), *map(Secret, TOKENS)]
            root = Path(name) / place
            found, used = _tried(root, wheels, hidden)
            shutil.rmtree(root)
            print("\n".join([f"{place}: {len(found)} found", *found]), flush=True)
            planted += len(hidden)
            leaks += found
            unused += not used
    return planted, leaks, unused


def _tried(root: Path, wheels: Path, hidden: Sequence[Secret]) -> tuple[list[str], bool]:
    checkout = made(root / "checkout", wheels, 1, more={TELLER: _TELLS})
    first = hidden[0]
    tokens = {one.place: one.word for one in hidden[1:]}
    user = base64.b64encode(f"me:{first.word}".encode()).decode()
    keys = "" if "PROXY" in first.place else f"Basic {user}"
    with serving(wheels, keys=keys) as address, _watching(hidden) as seen:
        told = _planted(checkout, first, address) | tokens
        said = [_said(checkout, told | {"UV_HTTP_RETRIES": "0"}, broken=True)]
        said.append(_said(checkout, told, broken=False))
        used = "PROXY" in first.place or checkout.measured()
    leaks = [f"{one.place} in a command line" for one in seen]
    for one in hidden:
        leaks += [f"{one.place} in the output" for text in said if one.is_in(text)]
        leaks += [f"{one.place} in {where}" for where in _holding(checkout, one)]
    return leaks, used


def _planted(checkout: Checkout, secret: Secret, address: str) -> dict[str, str]:
    """Return the variables that hold a secret, or write the file that does."""
    host = address.partition("//")[2]
    mine = f"http://me:{secret.quoted}@{host}"
    files = mine.replace("/simple", "/simple/transformers/")
    none = {"PIP_NO_INDEX": "", "PIP_FIND_LINKS": ""}
    match secret.place:
        case "PIP_EXTRA_INDEX_URL" | "UV_INDEX":
            nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
            return none | nowhere | {"PIP_INDEX_URL": mine, secret.place: mine}
        case "PIP_FIND_LINKS" | "UV_FIND_LINKS":
            torch = mine.replace("/simple", "/simple/torch/")
            between = " " if secret.place == "PIP_FIND_LINKS" else ","
            return none | {"PIP_NO_INDEX": "1", secret.place: f"{files}{between}{torch}"}
        case "pip.conf":
            _write(checkout.home / ".config" / "pip" / "pip.conf", f"[global]\nindex-url={mine}\n")
            return none
        case ".netrc":
            text = f"machine 127.0.0.1\nlogin me\npassword {secret.word}\n"
            _write(checkout.home / ".netrc", text)
            return none | {"PIP_INDEX_URL": address}
        case "ALL_PROXY" | "PIP_PROXY":
            proxied = {secret.place: mine.removesuffix("/simple"), "UV_HTTP_TIMEOUT": "3"}
            return none | proxied | {"PIP_INDEX_URL": "http://index.invalid/simple"}
        case variable:
            return none | {variable: mine}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _said(checkout: Checkout, told: Mapping[str, str], *, broken: bool) -> bytes:
    """Run every command that builds, measures or tells, and return what they printed."""
    lock = checkout.root / "environments" / "locks" / "1.1.0.txt"
    whole = lock.read_text()
    if broken:  # a file that is not the index's, so that an installer complains
        lock.write_text(re.sub(r"sha256:(\w{63})\w", r"sha256:0\1", whole))
    commands = [
        ("matrix", "--release", "1.0.0,1.1.0"),
        ("environment", "1.1.0"),
        *((("lock", "1.1.0"),) if broken else _TELLING),
        *(() if broken else (("audit", str(lock)),)),
    ]
    done = [checkout.run(*command, **told) for command in commands]
    lock.write_text(whole)
    return "\n".join(one.out + one.err for one in done).encode()


def _holding(checkout: Checkout, secret: Secret) -> Iterator[str]:
    """Yield every file below a checkout in which a secret stands, and every table."""
    for path in sorted(checkout.root.rglob("*")):
        inside = path.relative_to(checkout.root)
        if inside.parts[0] in _LEFT_OUT or path.is_symlink() or not path.is_file():
            continue
        if secret.is_in(str(inside).encode()) or secret.is_in(path.read_bytes()):
            yield str(inside)
    if checkout.store.exists():  # a text that SQLite keeps in several pages
        with contextlib.closing(sqlite3.connect(checkout.store)) as database:
            if secret.is_in("\n".join(database.iterdump()).encode("utf-8", "replace")):
                yield "a table of the store"


@contextlib.contextmanager
def _watching(hidden: Sequence[Secret]) -> Iterator[set[Secret]]:
    """Look at the command lines of all processes for the length of a block."""
    seen: set[Secret] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK):
            # Each file is opened by its name: to look for it first fails where its process ends.
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    line = (process / "cmdline").read_bytes()
                    seen.update(one for one in hidden if one.is_in(line))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
