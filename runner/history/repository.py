"""Questions to a repository of somebody else, every one of them read-only."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner import processes
from runner.errors import ExitCode, Fault, refuse
from runner.history.commit import FORMAT, Commit, commits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
            raise refuse(Fault(where=option, found=repr(revision), allowed=allowed, remedy=remedy))
        return found

    def blob(self, commit: str, path: str) -> str | None:
        """Return a file as it stands at a commit, or None where there is none."""
        return self.ask("cat-file", "blob", f"{commit}:{path}")

    def commit(self, commit: str) -> Commit:
        """Return what a commit says of itself."""
        return commits(self.read("log", "-1", FORMAT, commit))[0]

    def commits(self, since: str, until: str) -> tuple[Commit, ...]:
        """Return the commits that are in the second and not in the first, newest first."""
        return commits(self.read("log", FORMAT, until, f"^{since}"))

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


def _no_repository(folder: Path, done: processes.Finished) -> Exception:
    if done.code == 127:  # noqa: PLR2004 - as a shell says it, and as `finish` does
        fault = Fault(where="git", found=done.err, allowed="git 2.37 or newer")
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


def _git(folder: Path, arguments: Sequence[str], given: str = "") -> processes.Finished:
    return git(folder, arguments, {**surroundings(), "LC_ALL": "C.UTF-8"}, given)


def git(
    folder: Path, arguments: Sequence[str], environ: Mapping[str, str], given: str = ""
) -> processes.Finished:
    """Run git in a folder to its end."""
    quiet = [part for setting in _QUIET for part in ("-c", setting)]
    command: list[str | Path] = ["git", "--no-pager", "-C", folder, *quiet, *arguments]
    return processes.finish(command, environ=environ, given=given)


def _fault(folder: Path, found: str, allowed: str, remedy: str = "") -> Fault:
    return Fault(where=f"{OPTION} {folder}", found=found, allowed=allowed, remedy=remedy)


def _last(text: str) -> str:
    """Return the line with which git gives up; advice may follow it."""
    lines = text.strip().splitlines()
    fatal = [line for line in lines if line.startswith(_FATAL)]
    return (fatal or lines or ["no word of why"])[-1].removeprefix(_FATAL)
