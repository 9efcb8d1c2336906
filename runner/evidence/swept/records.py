"""What probes said: the answer of a cell, read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from repromatrix.runner.model.observation import signature
from repromatrix.runner.text import plural

_LONGEST = 200
"""Characters of what is published of a message."""


class ProbeStatus(StrEnum):
    """How a probe ended."""

    HOLDS = "holds"
    FAILS = "fails"
    DIFFERS = "differs"
    """Numbers that must agree do not."""
    SKIPPED = "skipped"
    """It does not apply to the architecture, with the reason."""
    UNKNOWN = "unknown"
    """The process of its family did not come to an end that tells."""

    @property
    def is_bad(self) -> bool:
        """Whether what must hold does not."""
        return self in {ProbeStatus.FAILS, ProbeStatus.DIFFERS}


class ProbeKey(NamedTuple):
    """One probe on one architecture."""

    kind: str
    """The architecture, as configs name it; of a further class `bert:BertForMaskedLM`."""
    probe: str

    @property
    def architecture(self) -> str:
        """The architecture, whatever the class."""
        return architecture_of(self.kind)


def architecture_of(kind: str) -> str:
    """Return the architecture, be it named alone or with a further class of it."""
    return kind.partition(":")[0]


def counted_kinds(kinds: Collection[str]) -> str:
    """Return how many architectures or further classes are named: `1 architecture`, `3 classes`."""
    if any(":" in kind for kind in kinds):
        return plural(len(kinds), "class", "classes")
    return plural(len(kinds), "architecture")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeRecord:
    """What one probe found on one architecture and release."""

    key: ProbeKey
    status: ProbeStatus
    error: str = ""
    message: str = ""
    place: str = ""
    """Where it failed, as `module:function`."""
    value: float | None = None
    why: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """Numbers of outputs, for comparisons between releases."""

    @property
    def signature(self) -> str:
        """Class and message without sizes and places; empty where it did not fail."""
        return signature(self.error, self.message) if self.error else ""

    @property
    def text(self) -> str:
        """As much of what was said as is published, on one line."""
        return " ".join((self.message if self.error else self.why).split())[:_LONGEST]

    @property
    def shortened(self) -> ProbeRecord:
        """The record as it is published."""
        return replace(self, message=self.text) if self.error else replace(self, why=self.text)

    @property
    def headline(self) -> str:
        """What happened, in a line."""
        if self.error:
            first = next(iter(self.message.splitlines()), "")
            return f"{self.error}: {first}" if first else self.error
        return self.why or str(self.status)
