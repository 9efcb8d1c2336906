"""What the site knows beside its cells: publications, what they changed, and where it will lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.evidence.changes import Record
    from runner.evidence.publications import Publication


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """The publications by name, what each changed, newest first, and the address of the site."""

    publications: Mapping[str, Publication] = field(default_factory=dict)
    records: tuple[Record, ...] = ()
    base_url: str = ""
    """Ends in a slash; empty where the site has no address."""

    @property
    def newest(self) -> Publication | None:
        """The newest publication; None where nothing was published."""
        return max(self.publications.values(), key=lambda one: (one.date, one.name), default=None)
