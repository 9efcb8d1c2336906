"""Where things are in a checkout; every path of the program comes from here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _chosen(variable: str, default: Path) -> Path:
    """Let an environment variable move a folder of ours to another disk."""
    value = os.environ.get(variable)
    return Path(value).expanduser().resolve() if value else default


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """The folders of one checkout."""

    root: Path = ROOT
    cases: Path = ROOT / "cases"
    state: Path = ROOT / ".repromatrix"

    @property
    def matrix(self) -> Path:
        """The axes."""
        return self.root / "environments" / "matrix.toml"

    @property
    def locks(self) -> Path:
        """One requirements file per release."""
        return self.root / "environments" / "locks"

    @property
    def built(self) -> Path:
        """The virtualenvs; REPROMATRIX_ENVIRONMENTS moves them."""
        return _chosen("REPROMATRIX_ENVIRONMENTS", self.root / ".nox" / "environments")

    @property
    def store(self) -> Path:
        """This machine's evidence; REPROMATRIX_STORE moves it."""
        return _chosen("REPROMATRIX_STORE", self.state / "evidence.sqlite")

    @property
    def published(self) -> Path:
        """The evidence that is in the repository."""
        return self.root / "reports" / "published"

    @property
    def site(self) -> Path:
        """The rendered pages."""
        return _chosen("REPROMATRIX_SITE", self.root / "reports" / "site")

    def shown(self, path: Path) -> str:
        """Return a path as a reader of this checkout would write it."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)
