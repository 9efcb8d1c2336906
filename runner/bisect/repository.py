"""A clone, which is only read, and checkouts of our own in which its commits are tried."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from packaging.version import Version

from repromatrix.runner.environments.development import PackageSources, claimed_version, packages_in
from repromatrix.runner.errors import InvalidValue, Problem, RunnerError, refuse
from repromatrix.runner.git import git_environ, run_git, why_git_failed
from repromatrix.runner.model.packages import MOVED
from repromatrix.runner.subprocesses import Finished, anonymous
from repromatrix.runner.text import join
from repromatrix.runner.worker import process_control

OPTION = "--repo"
_MAIN = (
    *("refs/remotes/upstream/HEAD", "refs/remotes/origin/HEAD"),
    *("refs/remotes/upstream/main", "refs/remotes/origin/main", "refs/heads/main"),
    *("refs/remotes/upstream/master", "refs/remotes/origin/master", "refs/heads/master"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """A repository that is whole: neither shallow nor partial."""

    folder: Path
    objects: Path
    """Where its commits are kept, also where the folder is one of several worktrees."""
    hashes: str
    """How it names them: `sha1` or `sha256`."""
    is_bare: bool

    @property
    def where(self) -> str:
        """What an error calls it."""
        return f"{OPTION} {self.folder}"

    def ask(self, *arguments: str, given: str = "") -> str | None:
        """Return what git prints, or None where it refuses."""
        done = run_git(self.folder, arguments, given=given)
        return done.out if done.code == 0 else None

    def read(self, *arguments: str) -> str:
        """Return what git prints; raises RunnerError where it refuses."""
        done = run_git(self.folder, arguments)
        if done.code != 0:
            what = f"git {arguments[0]} failed ({why_git_failed(done)})"
            raise refuse(Problem(self.where, what))
        return done.out

    def resolve(self, revision: str) -> str | None:
        """Return the commit that a revision names, or None."""
        if not revision or revision.startswith("-"):
            return None
        out = self.ask("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        return out.strip() if out else None

    def revision(self, revision: str, option: str) -> str:
        """Return the commit that an option names; raises RunnerError."""
        commit = self.resolve(revision)
        if commit is None:
            expected = "a commit, a tag or a branch of the repository"
            raise refuse(InvalidValue(option, revision, expected, "You may have to fetch it."))
        return commit

    def tip(self) -> str:
        """Return a commit to look at; raises RunnerError where there is none."""
        for name in ("HEAD", "--all"):
            commit = self.ask("rev-list", "--max-count=1", name)
            if commit and commit.strip():
                return commit.strip()
        raise refuse(Problem(self.where, "the repository has no commits"))

    def newest_main(self) -> str:
        """Return the main branch whose last commit is the newest; `HEAD` where there is none."""
        form = "--format=%(committerdate:unix) %(refname)"
        listed = self.read("for-each-ref", form, *_MAIN).splitlines()
        dates = {name: int(date) for date, name in map(str.split, listed)}
        return max((name for name in _MAIN if name in dates), key=dates.__getitem__, default="HEAD")

    def blob(self, commit: str, path: str) -> str | None:
        """Return a file as it stands at a commit, or None where there is none."""
        return self.ask("cat-file", "blob", f"{commit}:{path}")

    def claims(self, commit: str, sources: PackageSources) -> str:
        """Return the version that a package claims at a commit; empty where it claims none."""
        return claimed_or_nothing(self.blob(commit, sources.init) or "")

    def commit(self, commit: str) -> Commit:
        """Return a commit with its date and its subject."""
        return self.described(commit)[0]

    def described(self, *commits: str) -> tuple[Commit, ...]:
        """Return commits with their dates and subjects."""
        if not commits:
            return ()
        lines = self.read("log", "--no-walk=unsorted", _FORMAT, *commits).split("\n")
        fields = (line.split("\0") for line in lines if line)
        return tuple(Commit(sha=sha, date=date, subject=subject) for sha, date, subject in fields)

    def parent(self, commit: str) -> str:
        """Return the first parent of a commit; empty where it has none."""
        return (self.ask("rev-parse", "--verify", "--quiet", f"{commit}^1") or "").strip()

    def first_parents(self, commit: str, *, until: str = "") -> tuple[str, ...]:
        """Return a commit and its first parents, newest first, without `until` and its past."""
        less = [f"^{until}"] if until else []
        return tuple(self.read("rev-list", "--first-parent", commit, *less).split())

    def is_dirty(self) -> bool:
        """Say whether a tracked file differs from what is committed."""
        if self.is_bare:
            return False
        status = self.ask("status", "--porcelain", "--untracked-files=no", "--ignore-submodules")
        return bool(status and status.strip())


def open_repository(folder: Path) -> Repository:
    """Return the repository of a folder; raises RunnerError where its history is not whole."""
    where = f"{OPTION} {folder}"
    if not folder.is_dir():
        raise refuse(Problem(where, "the folder does not exist"))
    questions = (
        "--path-format=absolute",
        "--git-common-dir",
        "--is-shallow-repository",
        "--is-bare-repository",
        "--show-object-format",
    )
    done = run_git(folder, ["rev-parse", *questions])
    if done.code != 0:
        raise _no_repository(folder, done)
    common, shallow, bare, hashes = done.out.splitlines()
    if shallow == "true":
        fix = f"Fetch the rest: `git -C {folder} fetch --unshallow --tags`."
        raise refuse(Problem(where, "a shallow clone lacks older commits", fix))
    # Reading a file of a partial clone would fetch it, and so write to your clone.
    keys = r"^(extensions\.partialclone|remote\..*\.(promisor|partialclonefilter))$"
    if run_git(folder, ["config", "--get-regexp", keys]).out.strip():
        fix = "Clone it again without --filter."
        raise refuse(Problem(where, "a partial clone lacks files of older commits", fix))
    objects = Path(common) / "objects"
    return Repository(folder=folder, objects=objects, hashes=hashes, is_bare=bare == "true")


def _no_repository(folder: Path, done: Finished) -> Exception:
    if done.code == 127:  # noqa: PLR2004 - as a shell says it, and as `finish` does
        return refuse(Problem(OPTION, "needs git 2.37 or newer, which is not installed"))
    what, fix = why_git_failed(done), "Name a clone."
    if "dubious ownership" in what:
        owned = shlex.quote(str(folder.resolve()))
        fix = f"If you trust it: `git config --global --add safe.directory {owned}`."
    return refuse(Problem(f"{OPTION} {folder}", what, fix))


def find_sources(repository: Repository, commit: str) -> PackageSources:
    """Return the package of ours that a commit holds; raises RunnerError where it holds none."""
    sources = next(packages_in(lambda path: repository.blob(commit, path) is not None), None)
    if sources is None:
        what = f"no sources of {join(MOVED, 'or')} at {commit[:SHORT]}"
        fix = "Name the clone of the package in which the releases differ."
        raise refuse(Problem(repository.where, what, fix))
    return sources


def claimed_or_nothing(init: str) -> str:
    """Return the version that an `__init__.py` assigns; empty where it assigns none."""
    try:
        return claimed_version(init, "__init__.py")
    except RunnerError:
        return ""


def as_version(text: str) -> Version | None:
    """Return the version that a text is; None where it is none."""
    try:
        return Version(text)
    except ValueError:  # also for a number of 5,000 digits
        return None


_FORMAT = "--format=%H%x00%aI%x00%s"
_PULL_REQUEST = re.compile(r"\(#(\d+)\)\s*$")
SHORT = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """One commit: its name, the day its author wrote it, and the first line of its message."""

    sha: str
    date: str
    """ISO 8601, with the author's offset."""
    subject: str

    @property
    def short(self) -> str:
        """The name as people quote it."""
        return self.sha[:SHORT]

    @property
    def pull_request(self) -> int | None:
        """The number at the end of the subject, `(#37044)`; one inside it is of another."""
        match = _PULL_REQUEST.search(self.subject)
        return int(match[1]) if match else None


OWNER = "REPROMATRIX_SEARCH"
"""The variable that marks every process of a search."""
# No hook, filter or setting of the user's may run in a checkout that is not the user's.
_NOTHING_OF_THE_USERS = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Worktree:
    """One checkout, for as long as a search lasts."""

    folder: Path

    @property
    def tree(self) -> Path:
        """Where the files are."""
        return self.folder / "tree"

    def git(self, *arguments: str) -> None:
        """Run git in the checkout; raises RunnerError where it fails."""
        environ = {**git_environ(), **_NOTHING_OF_THE_USERS, OWNER: str(self.folder)}
        done = run_git(self.tree, arguments, environ=environ)
        if done.code != 0:
            reason = anonymous(" ".join(done.err.split()))[-300:]
            raise refuse(Problem("the checkout", f"git {arguments[0]} failed ({reason})"))

    def check_out(self, commit: str) -> None:
        """Check out a commit; raises RunnerError."""
        self.git("checkout", "--quiet", "--force", "--detach", commit)


@contextlib.contextmanager
def opened(home: Path, lender: Repository, sources: PackageSources) -> Iterator[Worktree]:
    """Make a checkout for the length of a block, and remove what a killed search left.

    A running search holds the lock of its folder.
    """
    home.mkdir(parents=True, exist_ok=True)
    for guard in sorted(home.glob("*.lock")):
        with guard.open("a", encoding="utf-8") as lock:
            if _taken(lock):
                _remove(guard.with_suffix(""))
    with contextlib.ExitStack() as stack:
        number = 1
        while not _taken(stack.enter_context((home / f"{number}.lock").open("a"))):
            number += 1
        folder = home / str(number)
        stack.callback(_remove, folder)
        _remove(folder)
        yield _made(folder, lender, sources)


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(folder: Path) -> None:
    if folder.exists():
        process_control.end_strays(f"{OWNER}={folder}\0")
        shutil.rmtree(folder, ignore_errors=True)


def _made(folder: Path, lender: Repository, sources: PackageSources) -> Worktree:
    """Make a repository that borrows the objects of another."""
    worktree = Worktree(folder=folder)
    worktree.tree.mkdir(parents=True)
    worktree.git("init", "--quiet", f"--object-format={lender.hashes}", "--template=")
    info = worktree.tree / ".git" / "objects" / "info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "alternates").write_bytes(os.fsencode(f"{lender.objects}\n"))
    for name, value in (("core.hooksPath", "/dev/null"), ("gc.auto", "0")):
        worktree.git("config", name, value)
    worktree.git("sparse-checkout", "set", "--cone", sources.folder)
    return worktree
