# /// script
# requires-python = ">=3.11"
# dependencies = ["nox>=2026.10.20"]
# ///
"""The door: what people type. Each session starts a program and lets everything through."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nox

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from repromatrix.commands import COMMANDS  # noqa: E402 - found there, wherever nox was started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from repromatrix.commands import Command

nox.needs_version = ">=2026.10.20"
nox.options.sessions = ["lint", "check", "tests"]
nox.options.default_venv_backend = "none"
nox.options.error_on_missing_interpreters = True

PROJECT = nox.project.load_toml(HERE / "pyproject.toml")
MATRIX = nox.project.load_toml(HERE / "environments" / "matrix.toml")
DERIVED = sorted(path.stem for path in (HERE / "environments" / "locks").glob("*+*.txt"))
INSIDE = (
    *("repromatrix/runner/worker", "repromatrix/sweep/child"),
    "repromatrix/runner/evidence/swept/probes.py",
)
STACKS = [stack["name"] for stack in MATRIX.get("stacks", [])]
ENVIRONMENTS = [*(release["name"] for release in MATRIX["releases"]), "main", *DERIVED, *STACKS]


def _program(session: nox.Session, *arguments: str, group: str = "runner") -> None:
    _through(session, [_python(session, group), "-m", "repromatrix", *arguments])


def _session(command: Command) -> Callable[[nox.Session], None]:
    def passes_on(session: nox.Session) -> None:
        # Only who has a cluster needs Ray, and it has to be the cluster's own version.
        on_ray = any(word.partition("=")[0] == "--ray" for word in session.posargs)
        group = command.groups[-1 if on_ray else 0]
        _program(session, command.name, *session.posargs, group=group)

    passes_on.__doc__ = command.says
    return passes_on


for each in COMMANDS:
    if each.name != "environment":  # a session for each of them, below
        nox.session(name=each.name, default=False)(_session(each))


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests of the runner, in one process more than there are cores."""
    # A file stays in one process, and with it what its tests share.
    options = ["-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder"]
    # In place of a process that died a new one was seen to get no work, and the run not to end.
    options += ["--max-worker-restart", "0"]
    if "--whole" in session.posargs:
        options += ["-o", "faulthandler_timeout=7200"]
    _through(session, [_python(session, "tests"), "-m", "pytest", *options, *session.posargs])


@nox.session
def lint(session: nox.Session) -> None:
    """Format, lint and type-check everything."""
    python = _python(session, "tests")
    # The locale of whoever runs it decides no encoding; the tests run in UTF-8 mode.
    folders = ["runner", "sweep", "tools", "reports", "repromatrix"]
    encoding = ["--preview", "--select", "PLW1514", *folders]
    # What runs inside of an environment is run by its Python, and that may be an older one. The API
    # that its package names is not.
    older = ["--python-version", "3.10", "--follow-imports", "silent"]
    parts = [
        ["mypy"],
        # A distribution is for newer ones as well; what the newest takes, those between take too.
        ["mypy", "--python-version", "3.14", "repromatrix"],
        ["mypy", *older, *INSIDE],
        ["ruff", "check", "."],
        ["ruff", "check", *encoding],
        ["ruff", "format", "--check", "."],
    ]
    _side_by_side(session, [[python, "-m", *part] for part in parts])


@nox.session(default=False)
def dist(session: nox.Session) -> None:
    """Build the wheel and the source distribution into dist/."""
    _through(session, [_python(session, "dist"), "-m", "hatchling", "build", *session.posargs])


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Time a first hour, the corpus beside a plain loop, searches and the sweep."""
    _through(session, [_python(session, "tests"), "checks/run.py", "bench", *session.posargs])


@nox.session(default=False)
def checks(session: nox.Session) -> None:
    """Show in numbers what must hold: `nox -s checks -- --help` lists what there is."""
    _through(session, [_python(session, "tests"), "checks/run.py", *session.posargs])


@nox.session(default=False, allow_parallel=True)
@nox.parametrize("name", [nox.param(name, id=name) for name in ENVIRONMENTS])
def environment(session: nox.Session, name: str) -> None:
    """Build one pinned virtualenv and print its path."""
    _program(session, "environment", name, *session.posargs)


def _python(session: nox.Session, group: str) -> str:
    """Return the interpreter of a virtualenv that holds a dependency group, made when it changed.

    One for many sessions, with virtualenv and pip, which came with nox and know the user's index.
    """
    wanted = nox.project.dependency_groups(PROJECT, group)
    stamp = hashlib.sha256("\n".join([sys.version, *wanted]).encode()).hexdigest()
    folder = HERE / ".nox" / group
    python = folder / "bin" / "python"
    with _alone(folder):
        marker = folder / "holds"
        if not marker.exists() or marker.read_text(encoding="utf-8") != stamp:
            make = [sys.executable, "-m", "virtualenv", "--clear", "--quiet", str(folder)]
            session.run(*make, external=True, silent=True)
            # Python compiles what is imported; pip would compile all there is, for half a minute.
            install = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", *wanted]
            session.run(*install, external=True, silent=True)
            marker.write_text(stamp, encoding="utf-8")
    return str(python)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".making").open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _through(session: nox.Session, command: list[str]) -> None:
    """Run a program with our own input, output and signals, and end with its exit code.

    nox's own `session.run` joins the two outputs, makes every code 1, and kills an interrupted
    program after half a second; an interrupted run must render its report first.
    """
    session.log(" ".join([Path(command[0]).name, *command[1:]]))
    with subprocess.Popen(command, env=_environ()) as program:
        before = {
            number: signal.signal(number, lambda given, _: program.send_signal(given))
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        code = program.wait()
        for number, handler in before.items():
            signal.signal(number, handler)
    if code:
        raise SystemExit(128 - code if code < 0 else code)


def _side_by_side(session: nox.Session, commands: list[list[str]]) -> None:
    """Run programs, as many at once as there are cores, and end with the worst of their exit codes.

    What each of them says is printed in one piece; the longest comes first.
    """

    def ran(command: list[str]) -> subprocess.CompletedProcess[str]:
        kept: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.run(command, env=_environ(), check=False, encoding="utf-8", **kept)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = [*pool.map(ran, commands)]
    for command, end in zip(commands, done, strict=True):
        session.log(f"{' '.join(command[2:])}\n{end.stdout.rstrip()}")
    if worst := max(end.returncode for end in done):
        raise SystemExit(worst)


def _environ() -> dict[str, str]:
    environ = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    # Tests and checks name no encoding where they read and write, and the program does the same.
    return environ | {"REPROMATRIX_DOOR": str(os.getpid()), "PYTHONUTF8": "1"}


if __name__ == "__main__":
    nox.main()
