"""A file from an address or a path: bounded in size and time."""

from __future__ import annotations

import http.client
import queue
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from repromatrix.runner.errors import Problem, RunnerError, refuse

SILENCE = 20.0
"""Seconds without an answer, or without more of it."""
PATIENCE = 300.0
"""Seconds for all of it, however steadily it comes."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SCHEMES = ("https", "http", "file")
_USER = re.compile(r"(?<=://)[^/@]*@")


def is_remote(address: str) -> bool:
    """Say whether it is an address of the network, and not a file."""
    return bool(_ADDRESS.match(address)) and not address.lower().startswith("file:")


def shown(address: str) -> str:
    """Return an address without the user and the password in it."""
    return _USER.sub("", address)


def fetch(address: str, limit: int) -> bytes:
    """Return what lies at an address or path; raises RunnerError, also for more than `limit`."""
    where = shown(address)
    scheme = address.partition("://")[0].lower() if _ADDRESS.match(address) else ""
    if scheme and scheme not in _SCHEMES:
        what = f"an address of {scheme} cannot be read"
        raise refuse(Problem(where, what, "Give one of https, http or file, or a path."))
    content = _waited(lambda: _content(address, scheme, limit), where)
    if len(content) > limit:
        raise refuse(Problem(where, f"the file is larger than {limit >> 20} MB"))
    return content


def _waited(read: Callable[[], bytes], where: str) -> bytes:
    """Return what was read, in a thread: a server that sends a byte now and then is never silent.

    One that is given up ends with the process, or by its silence.
    """
    done: queue.Queue[bytes | Exception] = queue.Queue()

    def run() -> None:
        try:
            done.put(read())
        except Exception as error:  # noqa: BLE001 - raised by whoever waits
            done.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        found = done.get(timeout=PATIENCE)
    except queue.Empty:
        what = f"the download took longer than {PATIENCE:g} seconds"
        raise refuse(Problem(where, what, "Try again.")) from None
    if isinstance(found, bytes):
        return found
    refused = _told(found, where)
    raise found if refused is None else refused from found


def _content(address: str, scheme: str, limit: int) -> bytes:
    if not scheme:
        with Path(address).expanduser().open("rb") as file:
            return file.read(limit + 1)
    asked = urllib.request.Request(address, headers={"User-Agent": "repromatrix"})  # noqa: S310 - `fetch` has looked at the scheme
    with urllib.request.urlopen(asked, timeout=SILENCE) as answer:  # noqa: S310
        content: bytes = answer.read(limit + 1)
        return content


def _told(error: Exception, where: str) -> RunnerError | None:
    """Return what to raise in place of an error of reading; None for a bug of ours."""
    match error:
        case urllib.error.HTTPError(code=code, reason=reason):
            error.close()
            what = f"the server answers {code} ({reason})"
        case TimeoutError() | urllib.error.URLError(reason=TimeoutError()):
            what = f"no answer within {SILENCE:g} seconds"
        case urllib.error.URLError(reason=OSError(strerror=str(reason))):
            what = f"the address cannot be reached ({reason})"
        case urllib.error.URLError(reason=reason):
            what = f"the address cannot be reached ({reason})"
        case http.client.HTTPException() | ConnectionError():
            what = f"the server breaks off ({type(error).__name__})"
        case FileNotFoundError():
            what = "the file does not exist"
        case OSError(strerror=reason):
            what = f"the file cannot be read ({reason})"
        case ValueError():
            what = f"it is no address ({error})"
        case _:
            return None
    return refuse(Problem(where, what))
