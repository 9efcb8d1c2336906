"""A package index on this machine: a folder of wheels or other files, for who shows its keys."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

_OLD = 'data-upload-time="2025-01-01T00:00:00Z"'
"""Before any day up to which a lock is written."""


class Index(http.server.ThreadingHTTPServer):
    """Serves a folder of wheels."""

    daemon_threads = True

    def __init__(self, wheels: Path, keys: str, look: Callable[[], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.wheels, self.keys, self.look = wheels, keys, look

    def handle_error(self, *_about: object) -> None:
        """Say nothing of who hangs up: a runner that gives up does."""


@contextlib.contextmanager
def serving(wheels: Path, keys: str = "", look: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Serve for the length of a block, and yield the address; `look` is called at each request."""
    with Index(wheels, keys, look) as index:
        thread = threading.Thread(target=index.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{index.server_address[1]}/simple"
        finally:
            index.shutdown()
            thread.join()


class _Answer(http.server.BaseHTTPRequestHandler):
    server: Index

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.look()
        content = self._content()
        if self.server.keys and self.headers.get("Authorization") != self.server.keys:
            self.send_response(HTTPStatus.UNAUTHORIZED)
            self.send_header("WWW-Authenticate", 'Basic realm="an index"')
            content = b""
        else:
            self.send_response(HTTPStatus.OK if content else HTTPStatus.NOT_FOUND)
            is_wheel = self.path.endswith(".whl")
            self.send_header("Content-Type", "application/zip" if is_wheel else "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)
        self.close_connection = True

    def _content(self) -> bytes:
        """Return the page of a package, a wheel or another file; nothing where there is none."""
        *_, folder, name = self.path.partition("?")[0].split("/")
        if name:
            whole = self.server.wheels / self.path.partition("?")[0].lstrip("/")
            paths = [path for path in (self.server.wheels / name, whole) if path.is_file()]
            return paths[0].read_bytes() if paths else b""
        names = sorted(path.name for path in self.server.wheels.glob(f"{folder}-*.whl"))
        links = "".join(f'<a href="../../files/{one}" {_OLD}>{one}</a>\n' for one in names)
        page = f"<!DOCTYPE html><html><body>\n{links}</body></html>"
        return page.encode() if names else b""

    def log_message(self, *_said: object) -> None:
        """Say nothing: it is the runner that is listened to."""
