"""The one module that starts processes; everything else asks it to."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repromatrix.runner.worker import process_control

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_ADDRESS = re.compile(r"\b(?:git\+)?[a-z][a-z+]*://[^\s'\"<>)\]]+")
_HOST = re.compile(r"(\bhost(?:name)?:? ['\"`]?)[\w-]+(?:\.[\w-]+)+", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w<./])/(?:[\w.+@~ -]+/)*[\w.+@~-]+/?")

_LOOK = 0.1
_GRACE = 15.0
_MOMENT = 2.0

_running: set[subprocess.Popen[str]] = set()


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """A process that ended by itself or at its time limit (`code` is then None)."""

    code: int | None
    out: str
    err: str


def finish(  # noqa: PLR0913 - each is a thing of its own that a command may need
    command: Sequence[str | Path],
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    seconds: float = 900,
    given: str = "",
    inherited: Sequence[int] = (),
) -> Finished:
    """Run a command to its end with captured text; never through a shell, never with our input.

    `given` is what it reads; the descriptors in `inherited` are open in it.
    """
    try:
        process = subprocess.Popen(
            [str(part) for part in command],
            env=dict(os.environ if environ is None else environ),
            cwd=folder,
            stdin=subprocess.PIPE if given else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
            pass_fds=inherited,
            start_new_session=True,  # Ctrl-C reaches us alone; we end what we started
            # Killed, we can end nothing: the kernel does it. What runs there allocates nothing.
            preexec_fn=functools.partial(process_control.die_with_parent, os.getpid()),  # noqa: PLW1509
        )
    except FileNotFoundError as error:
        return Finished(code=127, out="", err=f"{error.filename}: no such program")
    _running.add(process)
    try:
        out, err = process.communicate(given or None, timeout=seconds)
    except BaseException as error:
        _end(process)  # interrupted: it is in a session of its own and heard nothing
        with contextlib.suppress(subprocess.TimeoutExpired):  # what left its group has its pipes
            process.communicate(timeout=_MOMENT)
        for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
            pipe.close()
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            return Finished(code=None, out="", err=f"no answer within {seconds:.0f} s")
        raise
    finally:
        _running.discard(process)
    return Finished(code=process.returncode, out=out, err=err)


_LOCK = "import fcntl, sys; fcntl.flock(int(sys.argv[1]), fcntl.LOCK_EX)"


def lock(file: int, seconds: float) -> bool:
    """Take the lock of an open file; say whether it was free within so many seconds.

    A program waits for it, so that `end_all` ends that, too: a lock belongs to the file as we
    opened it, whoever of us asks for it. Raises OSError where there are no locks.
    """
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    waiting = [sys.executable, "-c", _LOCK, str(file)]
    return finish(waiting, seconds=seconds, inherited=[file]).code == 0


def message_pipe(end: int, *, writes: bool) -> Connection[Any, Any]:
    """Return an end of a pipe through which whole messages go."""
    from multiprocessing.connection import Connection  # noqa: PLC0415 - a cluster alone needs it

    return Connection(end, readable=not writes, writable=writes)


class Answering:
    """A program that reads once and answers with messages until it ends; close it to end it.

    The number of the pipe that it answers through (`message_pipe`) is its last argument.
    """

    def __init__(
        self, command: Sequence[str | Path], given: bytes, environ: Mapping[str, str]
    ) -> None:
        """Start it and hand it what it reads."""
        here, there = os.pipe()
        self.answers = message_pipe(here, writes=False)
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with everything else
        self.process = subprocess.Popen(
            [*(str(part) for part in command), str(there)],
            stdin=subprocess.PIPE,
            stdout=self.errors,
            stderr=self.errors,
            pass_fds=[there],
            env=dict(environ),
            start_new_session=True,
        )
        os.close(there)
        assert self.process.stdin is not None  # noqa: S101 - it was opened as a pipe
        with contextlib.suppress(BrokenPipeError), self.process.stdin as pipe:
            pipe.write(given)

    def messages(self) -> Iterator[bytes]:
        """Yield what it answers, as it comes; short waits, so that an interruption is heard."""
        with contextlib.suppress(OSError, EOFError):  # it ended, maybe in the middle of one
            while True:
                if self.answers.poll(_LOOK):
                    yield self.answers.recv_bytes()

    def failure(self) -> str:
        """Wait for its end; return its last words where it did not end well, else nothing.

        It has said all it has to say: one that does not end then is ended.
        """
        code = self._wait()
        if not code:
            return ""
        self.errors.seek(0)
        said = self.errors.read().decode(errors="backslashreplace").strip().splitlines()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return anonymous(f"it ended with {how}" + (f": {said[-1][:300]}" if said else ""))

    def close(self) -> None:
        """Ask it to end, which ends what it started; kill it if it does not."""
        self.process.terminate()
        self._wait()
        self.answers.close()
        self.errors.close()

    def _wait(self) -> int:
        try:
            return self.process.wait(timeout=_GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def end_all() -> None:
    """Kill every command that is running, with its group; those who wait for one get its end."""
    for process in list(_running):
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def anonymous(text: str) -> str:
    """Take addresses, user names, tokens and paths out of a text that is stored or printed."""
    text = _HOST.sub(r"\1<host>", _ADDRESS.sub("<address>", text))
    return _PATH.sub("<path>", text)
