"""Call uv with the index settings of pip, and choose the build of torch that it installs.

uv does not read pip's configuration. It was chosen for its hard links and `--exclude-newer`.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from repromatrix.runner import subprocesses
from repromatrix.runner.errors import InvalidValue, Problem, refuse
from repromatrix.runner.paths import Paths
from repromatrix.runner.subprocesses import Finished
from repromatrix.runner.tempdirs import scratch

# pip's option to uv's variable; several values become one, joined as uv wants them.
_VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "cert": ("SSL_CERT_FILE", " "),
    "client-cert": ("SSL_CLIENT_CERT", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "keyring-provider": ("UV_KEYRING_PROVIDER", " "),
}
_OLDER = {"UV_DEFAULT_INDEX": "UV_INDEX_URL", "UV_INDEX": "UV_EXTRA_INDEX_URL"}
"""uv's own older spellings, which a user may still set."""
_SECTIONS = ("global", "install", ":env:")
"""Later ones win, as in pip."""


def configured() -> dict[str, str]:
    """Ask pip for its whole configuration: files, environment and all; empty without pip."""
    answer = subprocesses.finish([sys.executable, "-m", "pip", "config", "list"], seconds=60)
    return parse(answer.out) if answer.code == 0 else {}


def parse(listing: str) -> dict[str, str]:
    """Read the lines of `pip config list`; the section nearest to the command wins."""
    found: dict[str, str] = {}
    for section in _SECTIONS:
        for line in listing.splitlines():
            key, _, value = line.partition("=")
            name, _, option = key.rpartition(".")
            if name == section and value:
                found[option] = str(ast.literal_eval(value))
    return found


def for_uv(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return uv's environment: the given one, with pip's settings where uv has none."""
    result = dict(environ)
    result.pop("PYTHONDONTWRITEBYTECODE", None)
    # Several indexes behave as with pip: the best version of all of them.
    result.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    result.setdefault("UV_NO_PROGRESS", "1")
    for option, (variable, separator) in _VARIABLES.items():
        if option in settings and not {variable, _OLDER.get(variable)} & set(environ):
            result[variable] = separator.join(settings[option].split())
    if "proxy" in settings:
        result.setdefault("ALL_PROXY", settings["proxy"])
    return result


def options_for_uv(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return what uv takes as an option only: it has no variable for pip's no-index."""
    refused = settings.get("no-index", "").lower() in {"1", "true", "yes", "on"}
    return ("--no-index",) if refused else ()


PATIENCE = "REPROMATRIX_INSTALL_SECONDS"
_PATIENCE = 900.0


class SilentError(Exception):
    """An index did not answer; the text is uv's reason, with addresses in it."""


@functools.cache
def _program() -> str:
    try:
        from uv import find_uv_bin  # noqa: PLC0415 - only those who build need it
    except ModuleNotFoundError:  # an installation does without, until it builds
        program = shutil.which("uv")
    else:
        program = str(find_uv_bin())
    if program is None:
        what = "the program is not installed, and environments are built with it"
        raise refuse(Problem("uv", what, "Install it: `pip install uv`."))
    return program


@functools.cache
def _told() -> tuple[dict[str, str], tuple[str, ...]]:
    settings = configured()
    environ = for_uv(settings, os.environ)
    done = subprocesses.finish([_program(), "cache", "dir"], seconds=60)
    usual = Path(done.out.strip() or "/nonexistent")
    with contextlib.suppress(OSError):
        usual.mkdir(parents=True, exist_ok=True)
    if not os.access(usual, os.W_OK):
        environ["UV_CACHE_DIR"] = str(Paths().built / ".uv")
    return environ, options_for_uv(settings)


def call(
    *arguments: str | Path,
    without: frozenset[str] = frozenset(),
    told: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> Finished:
    """Run uv to its end.

    `without` names variables of its environment to leave out, `told` has those that it gets on top.
    Without `seconds` it has as long as an installation may take (`patience`).
    """
    ours, options = _told()
    environ = {name: value for name, value in ours.items() if name not in without}
    environ |= told or {}
    options = options if arguments[0] == "pip" else ()
    command = [_program(), *arguments, *options]
    return subprocesses.finish(command, environ=environ, seconds=seconds or patience())


def patience() -> float:
    """Return after how many seconds an installation is given up; raises RunnerError.

    uv's own timeouts end silence: an index that sends a byte now and then is never silent.
    """
    text = os.environ.get(PATIENCE, "")
    if not text:
        return _PATIENCE
    if not re.fullmatch(r"[0-9]{1,6}", text) or not int(text):
        raise refuse(InvalidValue(PATIENCE, text, "seconds from 1 to 999999"))
    return float(text)


def resolves(requirement: str, *options: str, python: str, seconds: float | None = None) -> bool:
    """Say whether a requirement can be had here; downloads nothing but metadata.

    Raises SilentError where an index did not answer, so that nobody knows.
    """
    with scratch() as folder:
        done = call(
            *("pip", "install", "--dry-run", "--no-deps", "--quiet"),
            *("--target", str(folder), "--python-version", python, *options, requirement),
            seconds=seconds,
        )
    # Exit code 2 is not "no solution": uv could not look for one, and nothing follows from that.
    # Taken for "no", a moment's failure chose a CUDA build of torch, or a wrong day for a release.
    if done.code not in {0, 1}:
        raise SilentError(done.err)
    return done.code == 0


_PROBE_SECONDS = 30
BACKEND = "UV_TORCH_BACKEND"


@functools.cache
def choose_torch(version: str, python: str) -> tuple[str, tuple[str, ...]]:
    """Choose torch's requirement, and the options with which uv finds it, once per process.

    A CPU build is told by its local version `+cpu`.

    UV_TORCH_BACKEND, where it is set, is handed through and decides alone. Raises SilentError
    where the user's own index fails: what it has then is not known, and not chosen either.
    """
    plain = f"torch=={version}"
    if torch_backend():
        return plain, ()
    if resolves(f"{plain}+cpu", python=python):
        return f"{plain}+cpu", ()
    # This asks PyTorch's own index, which many a network does not let through.
    options = ("--torch-backend", "cpu")
    with contextlib.suppress(SilentError):
        if resolves(plain, *options, python=python, seconds=_PROBE_SECONDS):
            return plain, options
    return plain, ()


def serve_gpu() -> None:
    """Let torch be installed for this machine's GPU driver, unless the user chose a build."""
    os.environ.setdefault(BACKEND, "auto")


def go_offline() -> None:
    """Let uv install only what it has in its cache; to be said before it is asked anything."""
    os.environ["UV_OFFLINE"] = "1"


def torch_backend() -> str:
    """Return the backend that the user chose, part of what identifies an environment's folder."""
    return os.environ.get(BACKEND, "")
