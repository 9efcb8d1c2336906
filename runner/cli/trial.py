"""`trial`: what `git bisect run` calls for each commit; nobody types it.

It speaks to git by its exit code, where 1 to 127 mean the newer kind except for 125. So whatever
goes wrong here ends above that, which stops the search instead of blaming a commit.
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from repromatrix.runner.bisect.commit_trials import attempt, read, trial_line
from repromatrix.runner.bisect.repository import LIFE
from repromatrix.runner.bisect.search import Answer
from repromatrix.runner.cli.options import app, told
from repromatrix.runner.errors import ExitCode, Interrupted

if TYPE_CHECKING:
    from rich.console import Console

UNKNOWN, BROKEN_OFF = 125, 255


@app.command("trial", hidden=True)
def trial(plan: Path, newer: str) -> None:
    """Try the commit that is checked out beside a plan: what `git bisect run` calls."""
    raise typer.Exit(try_commit(plan, newer, told()))


def try_commit(plan: Path, newer: str, console: Console) -> int:
    """Try the commit that is checked out beside a plan; return what git is to be told.

    `newer` is what the newer end answers, `yes` or `no`. The journal takes what the commit does.
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
    except BaseException:  # noqa: BLE001 - a fault of ours blames no commit
        console.print(traceback.format_exc(), markup=False)
        return BROKEN_OFF
    return UNKNOWN if tried.answer is Answer.UNKNOWN else int(tried.answer == newer)


def _end_with_search(folder: Path) -> None:
    """Be interrupted when the search is: its lock is free then, even when it was killed."""
    threading.Thread(target=_watch, args=(folder / LIFE,), daemon=True).start()


def _watch(life: Path) -> None:
    with life.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        fcntl.flock(lock, fcntl.LOCK_UN)
    os.kill(os.getpid(), signal.SIGTERM)
