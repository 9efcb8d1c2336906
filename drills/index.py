"""A package index on this machine that breaks in the ways in which indexes break."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TICK = 0.5
_OLD = 'data-upload-time="2025-01-01T00:00:00Z"'
"""Before any day up to which a lock is written."""


class Way(StrEnum):
    """How an index behaves."""

    WORKS = "works"
    GONE = "cannot be reached"
    REFUSES = "answers 503"
    FORBIDS = "answers 401"
    LACKS = "lacks the wheel"
    GARBLED = "answers what is no page"
    CUT_PAGE = "cuts a page off"
    CUT_WHEEL = "cuts a wheel off"
    OTHER_WHEEL = "gives a wheel with another hash"
    SLOW_PAGE = "gives a page byte by byte"
    SLOW_WHEEL = "gives a wheel byte by byte"
    SILENT = "accepts and says nothing"


class Index(http.server.ThreadingHTTPServer):
    """Serves a folder of wheels; `spoiled` are the names of files that are served in its way."""

    daemon_threads = True

    def __init__(self, wheels: Path, way: Way, spoiled: str, keys: str = "") -> None:
        """Listen on a port that is free; with `keys` only to who shows them."""
        super().__init__(("127.0.0.1", 0), _Answer)
        self.wheels, self.way, self.spoiled, self.keys = wheels, way, spoiled, keys
        self.asked = 0
        """Requests that it heard."""
        self.over = threading.Event()
        self.bad = 0
        """Where nothing listens, a port that is bound all the same, so that nobody else has it."""

    @property
    def address(self) -> str:
        """Where its pages begin."""
        return f"http://127.0.0.1:{self.bad or self.server_address[1]}/simple"

    def handle_error(self, *_about: object) -> None:
        """Say nothing of who hangs up: a runner that gives up does."""


@contextlib.contextmanager
def serving(
    wheels: Path, way: Way = Way.WORKS, spoiled: str = "", keys: str = ""
) -> Iterator[Index]:
    """Serve for the length of a block."""
    with Index(wheels, way, spoiled, keys) as index, socket.socket() as deaf:
        if way is Way.GONE:
            deaf.bind(("127.0.0.1", 0))
            index.bad = deaf.getsockname()[1]
        thread = threading.Thread(target=index.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield index
        finally:
            index.over.set()
            index.shutdown()
            thread.join()


class _Answer(http.server.BaseHTTPRequestHandler):
    server: Index

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.asked += 1
        if self.server.keys and self.headers.get("Authorization") != self.server.keys:
            self.send_response(HTTPStatus.UNAUTHORIZED)
            self.send_header("WWW-Authenticate", 'Basic realm="an index"')
            self.end_headers()
        elif self.server.spoiled not in self.path or not self._spoils(self.path.endswith(".whl")):
            self._answer()

    def _spoils(self, is_wheel: bool) -> bool:  # noqa: FBT001 - as it matches below
        """Answer in the way of this index; say whether it has one for such a file."""
        content = self._content()
        match self.server.way, is_wheel:
            case Way.REFUSES, _:
                self._fail(HTTPStatus.SERVICE_UNAVAILABLE)
            case Way.FORBIDS, _:
                self._fail(HTTPStatus.UNAUTHORIZED)
            case Way.SILENT, _:
                self.server.over.wait()
            case Way.GARBLED, False:
                self._say(b"\x00\xff" * 500)
            case Way.LACKS, True:
                self._fail(HTTPStatus.NOT_FOUND)
            case Way.OTHER_WHEEL, True:
                self._say(content + b"\0" * 22)
            case (Way.CUT_PAGE, False) | (Way.CUT_WHEEL, True):
                self._say(content, end=len(content) // 2)
            case (Way.SLOW_PAGE, False) | (Way.SLOW_WHEEL, True):
                self._drip(content)
            case _:
                return False
        return True

    def _answer(self) -> None:
        content = self._content()
        if content:
            self._say(content)
        else:
            self._fail(HTTPStatus.NOT_FOUND)

    def _content(self) -> bytes:
        """Return the page of a package or a wheel; nothing where there is none."""
        *_, folder, name = self.path.split("/")
        if name:
            path = self.server.wheels / name
            return path.read_bytes() if path.is_file() else b""
        names = sorted(path.name for path in self.server.wheels.glob(f"{folder}-*.whl"))
        links = "".join(f'<a href="../../files/{one}" {_OLD}>{one}</a>\n' for one in names)
        page = f"<!DOCTYPE html><html><body>\n{links}</body></html>"
        return page.encode() if names else b""

    def _head(self, length: int) -> None:
        is_wheel = self.path.endswith(".whl")
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/zip" if is_wheel else "text/html")
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _fail(self, status: HTTPStatus) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _say(self, content: bytes, end: int | None = None) -> None:
        self._head(len(content))
        if self.command == "GET":
            self.wfile.write(content[:end])
        self.close_connection = True

    def _drip(self, content: bytes) -> None:
        """Never stop answering, so that no silence can be noticed, and never come to an end."""
        self._head(len(content))
        if self.command == "HEAD":
            return
        for number in range(len(content)):
            if self.server.over.wait(_TICK):
                return
            with contextlib.suppress(OSError):
                self.wfile.write(content[number : number + 1])
                self.wfile.flush()

    def log_message(self, *_said: object) -> None:
        """Say nothing: it is the runner that is listened to."""
