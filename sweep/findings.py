"""What changed between two releases, and what fails on one, grouped by cause. Pure.

A hundred architectures that fail with one exception in one function are one finding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from repromatrix.runner.evidence.swept.changes import (
    Found,
    Kind,
    ProbeChange,
    cause_of,
    change_of,
    name_of,
)


@dataclass(frozen=True, kw_only=True)
class SweepFinding:
    """Changes with one cause, as far as their exceptions and places tell it."""

    kind: Kind
    cause: str
    """What they have in common: an exception with its place, or a probe with its difference."""
    changes: tuple[ProbeChange, ...]

    @property
    def name(self) -> str:
        """What it is called on the command line: the kind, and 8 hexadecimal digits."""
        return name_of(self.kind, self.cause)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The architectures."""
        return tuple(dict.fromkeys(change.after.key.kind for change in self.changes))

    @property
    def probes(self) -> tuple[str, ...]:
        """The probes."""
        return tuple(dict.fromkeys(change.after.key.probe for change in self.changes))


def changes(before: Found, after: Found) -> Iterator[ProbeChange]:
    """Yield what differs of the probes that both releases ran, in the order of the keys.

    What one of them skipped or could not answer says nothing.
    """
    for key in sorted(before.keys() & after.keys()):
        if change := change_of(before[key], after[key]):
            yield change


def findings(found: Iterable[ProbeChange]) -> tuple[SweepFinding, ...]:
    """Fold changes by cause; those that concern the most architectures come first."""
    groups: defaultdict[tuple[Kind, str], list[ProbeChange]] = defaultdict(list)
    for change in found:
        groups[change.kind, cause_of(change)].append(change)
    folded = [
        SweepFinding(kind=kind, cause=cause, changes=tuple(some))
        for (kind, cause), some in groups.items()
    ]
    order = list(Kind)
    return tuple(
        sorted(folded, key=lambda one: (order.index(one.kind), -len(one.kinds), one.cause))
    )


def bad(
    found: Found, dtypes: Mapping[str, str], *, in_16_bit: bool = True
) -> tuple[SweepFinding, ...]:
    """Fold what does not hold on a release, in 16 bit or in fp32.

    `dtypes` is by the names of probes. What is not built is none: it may be gone.
    """
    chosen = (
        ProbeChange(Kind.BROKEN, record, record)
        for key, record in sorted(found.items())
        if record.status.is_bad and key.probe in dtypes
        if (dtypes[key.probe] != "fp32") is in_16_bit
    )
    return findings(chosen)
