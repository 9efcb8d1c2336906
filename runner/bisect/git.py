"""Ask a clone, read only, and check commits out in a worktree of our own."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from repromatrix.runner import subprocesses
from repromatrix.runner.errors import ExitCode, Fault, OldFault, refuse
from repromatrix.runner.subprocesses import Finished, anonymous
from repromatrix.runner.worker import process_control

if TYPE_CHECKING:
    from repromatrix.runner.bisect.git_sources import PackageSources

OPTION = "--repo"
_FATAL = "fatal: "
# Nothing that a question may do on the side: refresh the index, start a daemon, sign, page, ask.
_QUIET = ("core.fsmonitor=false", "log.showSignature=false", "i18n.logOutputEncoding=UTF-8")
_ALONE = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
}


def surroundings() -> dict[str, str]:
    """Return the variables for git: none that leads it to another repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, **_ALONE}


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """A repository that is whole: neither shallow nor partial."""

    folder: Path
    objects: Path
    """Where its commits are kept, also where the folder is one of several worktrees."""
    hashes: str
    """How it names them: `sha1` or `sha256`."""
    is_bare: bool

    def ask(self, *arguments: str, given: str = "") -> str | None:
        """Return what git prints, or None where it refuses."""
        done = _git(self.folder, arguments, given)
        return done.out if done.code == 0 else None

    def read(self, *arguments: str) -> str:
        """Return what git prints; raises RunnerError where it refuses."""
        done = _git(self.folder, arguments)
        if done.code != 0:
            found = f"git {arguments[0]}: {_last(done.err)}"
            raise refuse(_fault(self.folder, found, "a repository that git can read"))
        return done.out

    def resolve(self, revision: str) -> str | None:
        """Return the commit that a revision names, or None."""
        if not revision or revision.startswith("-"):
            return None
        out = self.ask("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        return out.strip() if out else None

    def revision(self, revision: str, option: str) -> str:
        """Return the commit that somebody named; raises RunnerError."""
        found = self.resolve(revision)
        if found is None:
            remedy = "Fetch it, or name another one."
            allowed = "a commit, a tag or a branch of the repository"
            raise refuse(OldFault(where=option, found=repr(revision), allowed=allowed, fix=remedy))
        return found

    def blob(self, commit: str, path: str) -> str | None:
        """Return a file as it stands at a commit, or None where there is none."""
        return self.ask("cat-file", "blob", f"{commit}:{path}")

    def commit(self, commit: str) -> Commit:
        """Return what a commit says of itself."""
        return parse_commits(self.read("log", "-1", FORMAT, commit))[0]

    def commits(self, since: str, until: str) -> tuple[Commit, ...]:
        """Return the commits that are in the second and not in the first, newest first."""
        return parse_commits(self.read("log", FORMAT, until, f"^{since}"))

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
    if not folder.is_dir():
        raise refuse(_fault(folder, "no such folder", "a clone of the package"))
    asked = (
        "--path-format=absolute",
        "--git-common-dir",
        "--is-shallow-repository",
        "--is-bare-repository",
    )
    done = _git(folder, ["rev-parse", *asked, "--show-object-format"])
    if done.code != 0:
        raise _no_repository(folder, done)
    common, shallow, bare, hashes = done.out.splitlines()
    if shallow == "true":
        remedy = f"Fetch the rest: `git -C {folder} fetch --unshallow --tags`."
        raise refuse(_fault(folder, "a shallow clone", "one with its whole history", remedy))
    _refuse_partial(folder)
    objects = Path(common) / "objects"
    return Repository(folder=folder, objects=objects, hashes=hashes, is_bare=bare == "true")


def _no_repository(folder: Path, done: subprocesses.Finished) -> Exception:
    if done.code == 127:  # noqa: PLR2004 - as a shell says it, and as `finish` does
        fault = OldFault(where="git", found=done.err, allowed="git 2.37 or newer")
        return refuse(fault, ExitCode.BAD_INPUT)
    found = _last(done.err)
    if "dubious ownership" in found:
        allowed, owned = "a clone of yours, or one that you trust", folder.resolve()
        remedy = f"`git config --global --add safe.directory {shlex.quote(str(owned))}`."
        return refuse(_fault(folder, found, allowed, remedy))
    return refuse(_fault(folder, found, "a git repository", "Name a clone."))


def _refuse_partial(folder: Path) -> None:
    """Refuse a clone that would fetch, and so be written to, when its files are read."""
    keys = r"^(extensions\.partialclone|remote\..*\.(promisor|partialclonefilter))$"
    done = _git(folder, ["config", "--get-regexp", keys])
    if done.code == 0 and done.out.strip():
        remedy = "Clone it again without --filter."
        found = "a partial clone, which lacks files of older commits"
        raise refuse(_fault(folder, found, "one with its whole history", remedy))


def _git(folder: Path, arguments: Sequence[str], given: str = "") -> subprocesses.Finished:
    return run_git(folder, arguments, {**surroundings(), "LC_ALL": "C.UTF-8"}, given)


def run_git(
    folder: Path, arguments: Sequence[str], environ: Mapping[str, str], given: str = ""
) -> subprocesses.Finished:
    """Run git in a folder to its end."""
    quiet = [part for setting in _QUIET for part in ("-c", setting)]
    command: list[str | Path] = ["git", "--no-pager", "-C", folder, *quiet, *arguments]
    return subprocesses.finish(command, environ=environ, given=given)


def _fault(folder: Path, found: str, allowed: str, remedy: str = "") -> Fault:
    return OldFault(where=f"{OPTION} {folder}", found=found, allowed=allowed, fix=remedy)


def _last(text: str) -> str:
    """Return the line with which git gives up; advice may follow it."""
    lines = text.strip().splitlines()
    fatal = [line for line in lines if line.startswith(_FATAL)]
    return (fatal or lines or ["no word of why"])[-1].removeprefix(_FATAL)


_END, _FIELDS = "\x00", 4
FORMAT = "--format=%H%x00%aI%x00%s%x00%B%x00"
"""What to ask `git log` for."""
_PULL_REQUEST = re.compile(r"\(#(\d+)\)\s*$")
_REVERTED = re.compile(r"This reverts commit ([0-9a-f]{7,64})")
_PICKED = re.compile(r"\(cherry picked from commit ([0-9a-f]{7,64})\)")
SHORT = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """One commit: its name, the day its author wrote it, and its message."""

    sha: str
    date: str
    """ISO 8601, with the author's offset."""
    subject: str
    message: str = ""

    @property
    def short(self) -> str:
        """The name as people quote it."""
        return self.sha[:SHORT]

    @property
    def pull_request(self) -> int | None:
        """The number that ends the subject: `(#37044)`; one inside names another pull request."""
        found = _PULL_REQUEST.search(self.subject)
        return int(found[1]) if found else None

    @property
    def picked_from(self) -> tuple[str, ...]:
        """The commits that it says it was cherry-picked from."""
        return tuple(_PICKED.findall(self.message))

    def reverts(self, other: Commit) -> bool:
        """Say whether it says that it takes another commit back."""
        return any(other.sha.startswith(sha) for sha in _REVERTED.findall(self.message))


def parse_commits(text: str) -> tuple[Commit, ...]:
    """Read what `git log` printed in our format."""
    fields = text.split(_END)[:-1]
    return tuple(
        Commit(sha=sha.strip(), date=date, subject=subject, message=message.strip())
        for sha, date, subject, message in zip(*[iter(fields)] * _FIELDS, strict=True)
    )


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
        return {**surroundings(), **_NOTHING_OF_THE_USERS, OWNER: str(self.folder)}

    def git(self, *arguments: str) -> Finished:
        """Run git in the checkout."""
        return run_git(self.tree, arguments, self.environ)

    def must(self, *arguments: str) -> str:
        """Run git and return what it prints; raises RunnerError where it fails."""
        done = self.git(*arguments)
        if done.code != 0:
            found = f"git {arguments[0]}: {anonymous(' '.join(done.err.split()))[-300:]}"
            fault = OldFault(where="the checkout", found=found, allowed="a commit with its files")
            raise refuse(fault, ExitCode.BAD_INPUT)
        return done.out

    def check_out(self, commit: str) -> None:
        """Lay the files of a commit out; raises RunnerError."""
        self.must("checkout", "--quiet", "--force", "--detach", commit)

    def let_go(self) -> None:
        """Say that the search is over: whoever works for it sees that and ends."""
        fcntl.flock(self.life, fcntl.LOCK_UN)


@contextlib.contextmanager
def opened(home: Path, lender: Repository, sources: PackageSources) -> Iterator[Worktree]:
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
        process_control.end_strays(f"{OWNER}={folder}\0")
        shutil.rmtree(folder, ignore_errors=True)


def _make(worktree: Worktree, lender: Repository, sources: PackageSources) -> None:
    worktree.must("init", "--quiet", f"--object-format={lender.hashes}", "--template=")
    info = worktree.tree / ".git" / "objects" / "info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "alternates").write_text(f"{lender.objects}\n")
    for name, value in (("core.hooksPath", "/dev/null"), ("gc.auto", "0")):
        worktree.must("config", name, value)
    worktree.must("sparse-checkout", "set", "--cone", sources.folder)
