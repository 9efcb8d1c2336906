"""Ways out of a sandbox: what each case tries, and how it shows, from outside, that it got there.

A case that gets through leaves something that was not there before, or says what it cannot know.
`harmless` ones are tried without a sandbox as well, where they must succeed: else they try nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from programs import started

from repromatrix.runner.paths import ROOT

_CREATE_SHARED = 0o1600
_REMOVE_SHARED = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Escape:
    """One attempt: lines of a case; `<name>` stands for something of the world around it."""

    name: str
    tries: str
    harmless: bool = False
    root: bool = False
    """Whether it succeeds without a sandbox only for root."""

    def case(self, world: World) -> str:
        """Return the script; it says the word of the world where it got through."""
        text = f"word = {world.said!r}\n{_READ['begins']}{self.tries}"
        for name, value in world.named.items():
            text = text.replace(f"<{name}>", value)
        return text


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A case that reaches for its neighbour, and the neighbour, which passes where it is spared."""

    name: str
    does: str
    suffers: str
    behind: bool = False
    """Whether the neighbour comes after; else they run at the same time."""


_READ = tomllib.loads((ROOT / "tests" / "fixtures" / "escapes.toml").read_text())
ESCAPES = tuple(Escape(**one) for one in _READ["escape"])
PAIRS = tuple(Pair(**one) for one in _READ["pair"])


@dataclass(kw_only=True)
class World:
    """What lies and listens around a sandbox, none of which a case may reach."""

    folder: Path
    secret: str
    said: str
    named: dict[str, str]
    helper: subprocess.Popen[str]
    listening: list[socket.socket] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)

    def signs(self, output: str) -> list[str]:
        """Return what shows that somebody got through since the last look, and undo it."""
        found = [f"it said {word!r}" for word in (self.secret, self.said) if word in output]
        for one in self.listening:
            with contextlib.suppress(BlockingIOError):
                if one.type == socket.SOCK_STREAM:
                    one.accept()[0].close()
                else:
                    one.recv(100)
                found.append("it was heard")
        for path in self.written:
            if path.exists():
                path.unlink()
                found.append("it wrote a file")
        if self.helper.poll() is not None:
            found.append("it killed a process")
        kept = Path(self.named["store"])
        if kept.read_text() != self.secret:
            kept.write_text(self.secret)
            found.append("it changed the store")
        return found


@contextlib.contextmanager
def world(site_packages: Path, library: Path) -> Iterator[World]:
    """Make a world around a sandbox, in the checkout's own folder, and take it away again."""
    state = ROOT / ".repromatrix"
    state.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="escape ", dir=state))
    secret, word = (f"{kind}-{secrets.token_hex(8)}" for kind in ("secret", "through"))
    shared = Path("/dev/shm") / folder.name  # noqa: S108 - it is about what lies there
    shared.write_text(secret)
    home = folder / "home"
    for name in (".netrc", ".config/pip/pip.conf", ".cache/huggingface/token"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(secret)
    (folder / "store.sqlite").write_text(secret)
    sockets = _listening(folder, secret)
    segment = _segment(secret)
    escaped = f"repromatrix-{secrets.token_hex(4)}"
    sleeping = ["sleep", "600"]
    with started(sleeping, env={**os.environ, "SECRET": secret}) as helper:
        tops = {
            "system": Path("/usr"),
            "repository": ROOT,
            "code": ROOT / "runner",
            "site": site_packages,
            "library": library,
            "world": folder,
        }
        named = {
            **{name: str(path) for name, path in tops.items()},
            "home": str(home),
            "store": str(folder / "store.sqlite"),
            "escaped": escaped,
            "helper": str(helper.pid),
            "shared": str(shared),
            "segment": str(segment),
            "port": str(sockets[0].getsockname()[1]),
            "datagrams": str(sockets[1].getsockname()[1]),
            "abstract": secret,
            "user": str(Path.home()),
            "private": repr(sorted(_private_names())),
        }
        try:
            yield World(
                folder=folder,
                secret=secret,
                said=word,
                named=named,
                helper=helper,
                listening=sockets,
                written=[top / escaped for top in tops.values()],
            )
        finally:
            helper.kill()
            for one in sockets:
                one.close()
            shared.unlink()
            ctypes.CDLL(None).shmctl(segment, _REMOVE_SHARED, None)
            shutil.rmtree(folder)


def _private_names() -> set[str]:
    """Return what lies in the user's home, but for where interpreters may have to be seen."""
    shown = {".pyenv", ".local", ".nox", ".cache"}
    return {path.name for path in Path.home().iterdir()} - shown


def _listening(folder: Path, secret: str) -> list[socket.socket]:
    stream = socket.create_server(("127.0.0.1", 0))
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    found = [stream, datagrams]
    for address in (f"\0{secret}", os.path.relpath(folder / "socket")):
        local = socket.socket(socket.AF_UNIX)
        local.bind(address)
        local.listen()
        found.append(local)
    for one in found:
        one.settimeout(0)
    return found


def _segment(secret: str) -> int:
    """Return the key of a segment of System V memory that holds the secret."""
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    key = 0x5EC0000 + secrets.randbelow(1 << 16)
    number = libc.shmget(key, 4096, _CREATE_SHARED)
    address = libc.shmat(number, None, 0)
    ctypes.memmove(address, secret.encode(), len(secret))
    return int(number)
