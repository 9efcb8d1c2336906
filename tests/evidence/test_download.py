"""What is read from an address or a path, and what is said where it cannot be."""

from __future__ import annotations

import http.server
import re
import threading
import time
from typing import TYPE_CHECKING

import pytest

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import download
from repromatrix.runner.evidence.download import fetch, is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Pages(http.server.BaseHTTPRequestHandler):
    """A server with a page, a page that lies elsewhere, and some that never end."""

    def do_GET(self) -> None:
        match self.path:
            case "/there":
                self.answer(200, b"evidence")
            case "/moved":
                self.answer(302, b"", "/there")
            case "/circle":
                self.answer(302, b"", "/circle")
            case "/away":
                self.answer(302, b"", "file:///etc/passwd")
            case "/silent":
                time.sleep(2)
            case "/slow":
                for _ in range(20):
                    self.wfile.write(b"H")
                    time.sleep(0.1)
            case "/cut":
                self.connection.close()
            case _:
                self.answer(404, b"")

    def answer(self, code: int, content: bytes, place: str = "") -> None:
        self.send_response(code)
        if place:
            self.send_header("Location", place)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True  # who asked has gone


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as served:
        served.daemon_threads = True
        served.block_on_close = False
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_file_is_read_from_a_path_an_address_and_where_that_leads(
    server: str, tmp_path: Path
) -> None:
    path = tmp_path / "a file"
    path.write_bytes(b"evidence")
    addresses = (str(path), path.as_uri(), f"{server}/there", f"{server}/moved")

    assert [fetch(address, 8) for address in addresses] == [b"evidence"] * 4
    assert [is_remote(address) for address in addresses] == [False, False, True, True]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/nosuch", "the server answers 404 (Not Found)"),
        ("/circle", "the server answers 302 ("),
        ("/away", "the server answers 302 ("),
        ("/silent", "no answer within 0.3 seconds"),
        ("/slow", "the download took longer than 0.6 seconds"),
        ("/cut", "the server breaks off ("),
        ("/there", "the file is larger than 0 MB"),
    ],
)
def test_a_server_that_does_not_give_it_is_named_with_the_reason(
    path: str, told: str, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "SILENCE", 0.3)
    monkeypatch.setattr(download, "PATIENCE", 0.6 if path == "/slow" else 60)

    with pytest.raises(RunnerError, match=f"^{re.escape(f'{server}{path}: {told}')}"):
        fetch(f"{server}{path}", 7)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("nosuch", "nosuch: the file does not exist."),
        ("file:///nosuch", "file:///nosuch: the address cannot be reached ("),
        (".", ".: the file cannot be read (Is a directory)."),
        ("http://127.0.0.1:1/x", "http://127.0.0.1:1/x: the address cannot be reached ("),
        ("ftp://127.0.0.1/x", "ftp://127.0.0.1/x: an address of ftp cannot be read. Give one of"),
        ("http://[/x", "http://[/x: it is no address ("),
        ("http://me:secret@[/x", "http://[/x: it is no address ("),
    ],
)
def test_what_cannot_be_read_is_named_with_the_reason(address: str, told: str) -> None:
    with pytest.raises(RunnerError, match=f"^{re.escape(told)}"):
        fetch(address, 7)
