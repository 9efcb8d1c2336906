"""Checkouts of our own: a repository that borrows the commits of another and writes nothing there.

It has its own HEAD, index, refs and bisect state; the lender's are never touched. It lies in one
of a few places, so that what is compiled from it is found again by the next search.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import shutil
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from runner.errors import ExitCode, Fault, refuse
from runner.history import repository as asking
from runner.inside import cage
from runner.processes import anonymous

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runner.history.repository import Repository
    from runner.history.sources import Sources
    from runner.processes import Finished

LIFE = "life"
OWNER = "REPROMATRIX_SEARCH"
"""The variable by which every process of a search is known."""
# No hook, filter or setting of the user's may run in a checkout that is not the user's.
_NOTHING_OF_THE_USERS = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Worktree:
    """One checkout, for as long as a search lasts."""

    folder: Path
    life: IO[str]
    """Locked while the search goes on; whoever works for it ends when that ends."""

    @property
    def tree(self) -> Path:
        """Where the files are."""
        return self.folder / "tree"

    @property
    def environ(self) -> dict[str, str]:
        """The variables of everything that is started for it."""
        return {**asking.surroundings(), **_NOTHING_OF_THE_USERS, OWNER: str(self.folder)}

    def git(self, *arguments: str) -> Finished:
        """Run git in the checkout."""
        return asking.git(self.tree, arguments, self.environ)

    def must(self, *arguments: str) -> str:
        """Run git and return what it prints; raises RunnerError where it fails."""
        done = self.git(*arguments)
        if done.code != 0:
            found = f"git {arguments[0]}: {anonymous(' '.join(done.err.split()))[-300:]}"
            fault = Fault(where="the checkout", found=found, allowed="a commit with its files")
            raise refuse(fault, ExitCode.BAD_INPUT)
        return done.out

    def check_out(self, commit: str) -> None:
        """Lay the files of a commit out; raises RunnerError."""
        self.must("checkout", "--quiet", "--force", "--detach", commit)

    def let_go(self) -> None:
        """Say that the search is over: whoever works for it sees that and ends."""
        fcntl.flock(self.life, fcntl.LOCK_UN)


@contextlib.contextmanager
def opened(home: Path, lender: Repository, sources: Sources) -> Iterator[Worktree]:
    """Make a checkout for the length of a block, behind whatever a killed search left."""
    home.mkdir(parents=True, exist_ok=True)
    clean(home)
    folder, lock = _free(home)
    try:
        _remove(folder)
        (folder / "tree").mkdir(parents=True)
        with (folder / LIFE).open("a") as life:
            fcntl.flock(life, fcntl.LOCK_EX)
            worktree = Worktree(folder=folder, life=life)
            _make(worktree, lender, sources)
            yield worktree
    finally:
        _remove(folder)
        lock.close()


def clean(home: Path) -> None:
    """End and remove what searches left that were killed; those that live are left alone."""
    for guard in sorted(home.glob("*.lock")):
        with guard.open("a") as lock:
            if _taken(lock):
                _remove(guard.with_suffix(""))


def _free(home: Path) -> tuple[Path, IO[str]]:
    for number in itertools.count(1):
        lock = (home / f"{number}.lock").open("a")
        if _taken(lock):
            return home / str(number), lock
        lock.close()
    raise AssertionError(number)  # there is always another number


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(folder: Path) -> None:
    if folder.exists():
        cage.end_strays(f"{OWNER}={folder}\0")
        shutil.rmtree(folder, ignore_errors=True)


def _make(worktree: Worktree, lender: Repository, sources: Sources) -> None:
    worktree.must("init", "--quiet", f"--object-format={lender.hashes}", "--template=")
    info = worktree.tree / ".git" / "objects" / "info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "alternates").write_text(f"{lender.objects}\n")
    for name, value in (("core.hooksPath", "/dev/null"), ("gc.auto", "0")):
        worktree.must("config", name, value)
    worktree.must("sparse-checkout", "set", "--cone", sources.folder)
