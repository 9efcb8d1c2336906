"""`trial`: what `git bisect run` calls for each commit; nobody types it.

Its exit code is the answer for git, which takes 1 to 127, except 125, for "the newer kind". So
whatever goes wrong here ends above that, which stops the search instead of blaming a commit.
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repromatrix.runner.bisect.commit_trials import attempt, read, trial_line
from repromatrix.runner.bisect.repository import LIFE
from repromatrix.runner.bisect.search import Answer
from repromatrix.runner.cli.options import command
from repromatrix.runner.errors import ExitCode, Interrupted

if TYPE_CHECKING:
    from rich.console import Console

# Dangerous: git takes every other code from 1 to 127, also that of a program that cannot start,
# for "this commit is like the newer end".
UNKNOWN, BROKEN_OFF = 125, 255


@command("trial", hidden=True)
def try_commit(
    plan: Annotated[Path, typer.Argument()],
    newer: Annotated[str, typer.Argument()],
    console: Console,
) -> int:
    """Try the commit that is checked out beside a plan: what `git bisect run` calls.

    Returns the exit code for git. `newer` is what the newer end answers, `yes` or `no`. The
    journal takes what the commit does.
    """
    try:
        _end_with_search(plan.parent)
        tree = plan.parent / "tree"
        commit = (tree / ".git" / "HEAD").read_text().strip()
        tried = attempt(read(plan.read_text()), tree, commit)
        with (plan.parent / "journal").open("a") as journal:
            journal.write(trial_line(tried))
    except Interrupted:
        return ExitCode.INTERRUPTED
    except BaseException:  # noqa: BLE001 - exit code 1 of a traceback would blame the commit
        console.print(traceback.format_exc(), markup=False)
        return BROKEN_OFF
    return UNKNOWN if tried.answer is Answer.UNKNOWN else int(tried.answer == newer)


def _end_with_search(folder: Path) -> None:
    """Be interrupted when the search is: its lock is free then, even when it was killed."""

    def watch() -> None:
        with (folder / LIFE).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            fcntl.flock(lock, fcntl.LOCK_UN)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
