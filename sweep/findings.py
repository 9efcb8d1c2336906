"""What changed between two releases, and what fails on one, grouped by cause. Pure.

A hundred architectures that fail with one exception in one function are one finding.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from repromatrix.runner.evidence.swept.changes import Found, Kind, ProbeChange, change_of
from repromatrix.runner.evidence.swept.probes import RAW
from repromatrix.runner.model.observation import signature

_MODELS = "transformers.models."


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
        digest = hashlib.sha256(self.cause.encode()).hexdigest()[:8]
        return f"{self.kind.value.partition(' ')[0]}-{digest}"

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
        change = change_of(before[key], after[key])
        if change is not None:
            yield change


def findings(found: Iterable[ProbeChange]) -> tuple[SweepFinding, ...]:
    """Fold changes by cause; those that concern the most architectures come first."""
    groups: defaultdict[tuple[Kind, str], list[ProbeChange]] = defaultdict(list)
    for change in found:
        groups[change.kind, _cause(change)].append(change)
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


def _cause(change: ProbeChange) -> str:
    """Return what changes of the same cause have in common.

    An exception in code that models share is known by its place, one in the file of a model by its
    words and by the function without the name of the model: most of those files are copies of each
    other. That weights in 16 bit refuse inputs in fp32 is one cause wherever it happens. Numbers
    are a matter of each architecture with all its classes, whatever their size.
    Only what is published counts: what was measured and what was read again have one name.
    """
    record = change.telling.shortened
    architecture = record.key.architecture
    if record.key.probe in RAW:
        return f"{record.key.probe}: {record.signature or record.why}"
    if change.kind in {Kind.NUMBERS, Kind.SHAPES}:
        return f"{change.kind}: {architecture}"
    if record.value is not None:
        return f"{record.key.probe}: {architecture}"
    if not record.error:
        return f"{record.key.probe}{signature('', record.why)}"
    if record.place and not record.place.startswith(_MODELS):
        return f"{record.error} in {record.place}"
    return f"{record.signature}{_function(record.place)}"


def _function(place: str) -> str:
    """Return ` in SelfAttention.forward` for `transformers.models.clvp.modeling_clvp:ClvpSelf…`."""
    module, _, function = place.partition(":")
    model = module.removeprefix(_MODELS).partition(".")[0].replace("_", "")
    if function.lower().startswith(model):
        function = function[len(model) :]
    return f" in {function}" if function else ""
