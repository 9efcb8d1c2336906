"""Run git, everywhere in the same way: a question writes nothing and waits for nobody."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from repromatrix.runner import subprocesses
from repromatrix.runner.subprocesses import Finished

# No question refreshes the index, starts a daemon, fetches, checks a signature or asks for a word.
_SETTINGS = ("core.fsmonitor=false", "log.showSignature=false", "i18n.logOutputEncoding=UTF-8")
_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
_FATAL = "fatal: "


def git_environ() -> dict[str, str]:
    """Return the variables for git: none of yours that leads it to another repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, **_VARIABLES}


def run_git(
    folder: Path,
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    given: str = "",
    seconds: float = 900,
) -> Finished:
    """Run git in a folder to its end; `given` is what it reads. Its messages are English."""
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    return subprocesses.finish(
        ["git", "--no-pager", "-C", folder, *settings, *arguments],
        environ={**(git_environ() if environ is None else environ), "LC_ALL": "C.UTF-8"},
        given=given,
        seconds=seconds,
    )


_USER, _PASSWORD = "REPRO_GIT_USER", "REPRO_GIT_PASSWORD"
_HELPER = (
    '!f() { test "$1" != get || printf "username=%s\\npassword=%s\\n"'
    f' "${_USER}" "${_PASSWORD}"; }}; f'
)


def without_credentials(url: str) -> tuple[str, dict[str, str]]:
    """Return an address without the user and password in it, and the variables that replace them.

    On a command line everybody on the machine can read a password, and git repeats its own to the
    programs that it starts. By these variables git, and what starts it, is asked for it instead.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # git says itself what is wrong with it
        return url, {}
    given, at, host = parts.netloc.rpartition("@")
    if not at or parts.scheme not in {"http", "https"}:
        return url, {}
    user, colon, password = given.partition(":")
    known = f"credential.{parts.scheme}://{host}"
    settings = [(f"{known}.username", unquote(user))]
    if colon:  # ours alone: yours might answer first, or keep what it is told
        settings += [(f"{known}.helper", ""), (f"{known}.helper", _HELPER)]
    count = os.environ.get("GIT_CONFIG_COUNT", "")
    number = int(count) if count.isdecimal() else 0
    environ = {_USER: unquote(user), _PASSWORD: unquote(password)} if colon else {}
    for key, value in settings:
        environ |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        number += 1
    return parts._replace(netloc=host).geturl(), {**environ, "GIT_CONFIG_COUNT": str(number)}


def list_remote(
    url: str, revisions: Sequence[str], *, told: Mapping[str, str], seconds: float
) -> Finished:
    """Ask a remote for the commits of revisions; `told` are variables on top of your own.

    Your own variables for git hold: they may say which key, proxy or certificate reaches it.
    """
    yours = {name: value for name, value in os.environ.items() if name.startswith("GIT_")}
    environ = {**yours, **git_environ(), **told}
    return run_git(Path(), ["ls-remote", url, *revisions], environ=environ, seconds=seconds)


def why_git_failed(done: Finished) -> str:
    """Return the line with which git gives up; advice may follow it."""
    lines = done.err.strip().splitlines()
    fatal = [line for line in lines if line.startswith(_FATAL)]
    return (fatal or lines or ["git gave no reason"])[-1].removeprefix(_FATAL)
