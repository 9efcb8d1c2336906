"""Where things are, in a checkout and in an installation; every path comes from here.

An installation is laid out as a checkout is. It is only read: the user's cache has what is written.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

CODE = Path(__file__).resolve().parent
"""The code of the runner; in a checkout the folder behind the link `repromatrix/runner`."""

ROOT = next(path for path in CODE.parents if (path / "environments" / "matrix.toml").is_file())
"""The checkout, what was unpacked from a bundle or an archive for a cluster, or the package."""

INSTALLED = (ROOT / "py.typed").is_file()
"""Whether that is the installed package, of which nothing is written; a checkout has it below."""

IMPORTED = ROOT.parent if INSTALLED else ROOT
"""The folder from which `repromatrix` is imported."""

_NO_HOME = Path("/nonexistent")


def _chosen(variable: str, default: Path) -> Path:
    """Let an environment variable move a folder of ours to another disk."""
    value = os.environ.get(variable)
    return Path(value).expanduser().resolve() if value else default


def as_typed(command: str, arguments: str = "") -> str:
    """Return a command as a reader of this checkout or installation types it."""
    if INSTALLED:
        return f"repromatrix {command} {arguments}".rstrip()
    return f"nox -s {command} -- {arguments}" if arguments else f"nox -s {command}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Paths:
    """The folders of one checkout, or of the installation."""

    root: Path = ROOT
    own: bool = False
    """For a case that is not in `cases/`: nothing of it is kept under the corpus's name."""

    @property
    def is_installed(self) -> bool:
        """Whether they are those of the installed package."""
        return INSTALLED and self.root == ROOT

    @property
    def cases(self) -> Path:
        """One script per reported bug."""
        return self.root / "cases"

    @property
    def state(self) -> Path:
        """What this machine keeps of a checkout, or for an installation in the user's cache."""
        if not self.is_installed:
            return self.root / ".repromatrix"
        # Where the system knows no home of the user, pathlib raises; to read needs none.
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
        return (Path(base) if not base.startswith("~") else _NO_HOME) / "repromatrix"

    @property
    def matrix(self) -> Path:
        """The axes."""
        return self.root / "environments" / "matrix.toml"

    @property
    def locks(self) -> Path:
        """One requirements file per release."""
        return self.root / "environments" / "locks"

    @property
    def places(self) -> Path:
        """Where releases were cut from the main branches of their packages."""
        return self.root / "environments" / "places.toml"

    @property
    def built(self) -> Path:
        """The virtualenvs; REPROMATRIX_ENVIRONMENTS moves them."""
        usual = self.state if self.is_installed else self.root / ".nox"
        return _chosen("REPROMATRIX_ENVIRONMENTS", usual / "environments")

    @property
    def store(self) -> Path:
        """This machine's evidence; REPROMATRIX_STORE moves it."""
        path = _chosen("REPROMATRIX_STORE", self.state / "evidence.sqlite")
        return path.with_name(f"own-{path.name}") if self.own else path

    @property
    def trials(self) -> Path:
        """What searches ran outside the grid: commits, and packages put together for a question."""
        return self.store.with_name(f"trials-{self.store.name}")

    @property
    def sweep(self) -> Path:
        """What the sweep measured on this machine; no other command opens it."""
        return self.store.with_name(f"sweep-{self.store.name}")

    @property
    def recipes(self) -> Path:
        """One frozen tiny model per architecture."""
        return self.root / "sweep" / "recipes"

    @property
    def commits(self) -> Path:
        """The commits that searches of this machine found."""
        return self.store.with_name(f"commits-{self.store.stem}.csv")

    @property
    def history(self) -> Path:
        """What cases did along the main branch, measured on this machine."""
        return self.store.with_name(f"history-{self.store.stem}.json")

    @property
    def mixtures(self) -> Path:
        """The locks of packages put together for a question, and of those that sources declare."""
        return self.state / "trials"

    @property
    def kept(self) -> Path:
        """Compiled files of source trees, kept by content."""
        return self.state / "bytecode"

    @property
    def checkouts(self) -> Path:
        """Where searches check commits out; nothing stays there."""
        return self.state / "bisect"

    @property
    def published(self) -> Path:
        """The evidence that is in the repository; none of it is about a case of your own."""
        return self.state / "own-published" if self.own else self.root / "reports" / "published"

    @property
    def torches(self) -> Path:
        """The published evidence under other torches, a set of its own."""
        return self.published / "torch"

    @property
    def site(self) -> Path:
        """The rendered pages."""
        usual = self.state if self.is_installed else self.root / "reports"
        path = _chosen("REPROMATRIX_SITE", usual / "site")
        return path.with_name(f"own-{path.name}") if self.own else path

    @property
    def drawn(self) -> Path:
        """What the last drawing left, apart from the pages: those may come from elsewhere."""
        return self.state / f"{self.site.name}.pickle"

    def shown(self, path: Path) -> str:
        """Return a path as a reader of this checkout would write it."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)
