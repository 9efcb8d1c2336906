"""A commit as it says of itself; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

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


def commits(text: str) -> tuple[Commit, ...]:
    """Read what `git log` printed in our format."""
    fields = text.split(_END)[:-1]
    return tuple(
        Commit(sha=sha.strip(), date=date, subject=subject, message=message.strip())
        for sha, date, subject, message in zip(*[iter(fields)] * _FIELDS, strict=True)
    )
