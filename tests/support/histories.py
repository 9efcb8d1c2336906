"""Small repositories for tests, written in one go, and what their commits hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from repromatrix.runner import subprocesses
from repromatrix.runner.git import git_environ

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DAY = 86400
EPOCH = 1_740_787_200  # the first of March 2025


def sources(version: str, state: str, package: str = "transformers") -> dict[str, str]:
    """Return the files of a package that claims a version and, tried, behaves in some way."""
    return {
        f"src/{package}/__init__.py": f'__version__ = "{version}"\n',
        f"src/{package}/state.txt": state,
        "setup.py": "setup(install_requires=[])\n",
    }


@dataclass
class History:
    """Commits, branches and tags to be written; names stand for commits."""

    stream: list[str] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)
    tips: dict[str, str] = field(default_factory=dict)
    shas: dict[str, str] = field(default_factory=dict)

    def commit(  # noqa: PLR0913 - one argument per part of a commit
        self,
        name: str,
        files: Mapping[str, str],
        *,
        branch: str = "main",
        on: str = "",
        merges: str = "",
        message: str = "",
    ) -> None:
        """Add a commit; it stands on the tip of its branch, or where a new branch begins."""
        number = len(self.marks) + 1
        text = (message or name).encode()
        parent = on or self.tips.get(branch, "")
        self.marks[name], self.tips[branch] = number, name
        who = f"Somebody <somebody@example.org> {EPOCH + number * DAY} +0100"
        self.stream += [f"commit refs/heads/{branch}", f"mark :{number}"]
        self.stream += [f"author {who}", f"committer {who}", f"data {len(text)}"]
        self.stream.append(text.decode())
        self.stream += [f"from :{self.marks[parent]}"] if parent else []
        self.stream += [f"merge :{self.marks[merges]}"] if merges else []
        for path, content in files.items():
            self.stream += [f"M 100644 inline {path}", f"data {len(content.encode())}", content]
        self.stream.append("")

    def tag(self, name: str, at: str) -> None:
        """Let a tag name a commit."""
        self.stream += [f"reset refs/tags/{name}", f"from :{self.marks[at]}", ""]

    def write(self, folder: Path) -> Path:
        """Write the repository, checked out on main, and learn the names of its commits."""
        folder.mkdir(parents=True)
        git(folder, "init", "--quiet", "--initial-branch=main")
        text = "\n".join(["feature done", *self.stream, "done", ""])
        git(folder, "fast-import", "--quiet", f"--export-marks={folder}/marks", given=text)
        told = dict(line.split() for line in (folder / "marks").read_text().splitlines())
        self.shas.update({name: told[f":{mark}"] for name, mark in self.marks.items()})
        (folder / "marks").unlink()
        git(folder, "checkout", "--quiet", "--force", "main")
        return folder

    def name(self, sha: str) -> str:
        """Return what a commit is called here."""
        return next(name for name, known in self.shas.items() if known == sha)


def git(folder: Path, *arguments: str, given: str = "", day: str = "") -> str:
    """Run git in a folder; a test that cannot prepare its repository fails.

    A commit is made on `day`.
    """
    environ = {**git_environ(), "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    if day:
        environ["GIT_COMMITTER_DATE"] = f"{day}T12:00:00+00:00"
    done = subprocesses.finish(
        ["git", "-c", "user.name=S", "-c", "user.email=s@example.org", *arguments],
        folder=folder,
        environ=environ,
        given=given,
    )
    assert done.code == 0, done.err
    return done.out


def fingerprint(folder: Path) -> dict[str, object]:
    """Return everything about a clone that a search must leave as it was."""
    inside = folder / ".git" if (folder / ".git").exists() else folder
    asked = ("status", "--porcelain"), ("for-each-ref",), ("worktree", "list"), ("stash", "list")
    looks = [] if inside == folder else [git(folder, *question) for question in asked]
    files = {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(inside.rglob("*"))
        if path.is_file()
    }
    return {"asked": looks, "head": (inside / "HEAD").read_text(), "files": files}
