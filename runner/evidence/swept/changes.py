"""What a probe did otherwise on two releases. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from repromatrix.runner.evidence.swept.probes import RAW, WEIGHTS
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord, ProbeStatus
from repromatrix.runner.model.observation import signature

Found = Mapping[ProbeKey, ProbeRecord]
"""What all probes found on one release."""

TOLERANCE = {"fp32": 1e-4, "bf16": 2e-2}
"""Relative differences of a summary that count as equal, by the dtype of the probe: another order
of additions, not another result."""
_MODELS = "transformers.models."
_SHARE = 1e-6
"""Shares of finite values this close are equal: published ones have six digits."""


class Kind(StrEnum):
    """What became of a probe from one release to the next."""

    BROKEN = "broken"
    FIXED = "fixed"
    NUMBERS = "numbers"
    """It holds on both, and what comes out is different."""
    SHAPES = "shapes"
    OTHER = "fails otherwise"
    """It fails on both, and not in the same way."""

    @property
    def head(self) -> str:
        """What stands above findings of it."""
        changed = self in {Kind.NUMBERS, Kind.SHAPES}
        return f"Other {self.value}" if changed else self.value.capitalize()


class ProbeChange(NamedTuple):
    """A probe on one architecture that does otherwise on two releases."""

    kind: Kind
    before: ProbeRecord
    after: ProbeRecord
    size: float = math.nan
    """Of numbers: the largest relative difference."""

    @property
    def telling(self) -> ProbeRecord:
        """The side that says what is wrong."""
        return self.before if self.kind is Kind.FIXED else self.after


def change_of(before: ProbeRecord, after: ProbeRecord) -> ProbeChange | None:
    """Return what became of a probe from one release to another; None where nothing did."""
    match before.status.is_bad, after.status.is_bad:
        case _ if {before.status, after.status} & {ProbeStatus.SKIPPED, ProbeStatus.UNKNOWN}:
            return None
        case False, True:
            return ProbeChange(Kind.BROKEN, before, after)
        case True, False:
            return ProbeChange(Kind.FIXED, before, after)
        case True, True:
            return None if same_outcome(before, after) else ProbeChange(Kind.OTHER, before, after)
        case _:
            return _numbers(before, after)


def same_outcome(before: ProbeRecord, after: ProbeRecord) -> bool:
    """Say whether two records that do not hold say the same, sizes and places aside."""
    return (before.status, before.signature) == (after.status, after.signature)


def _numbers(before: ProbeRecord, after: ProbeRecord) -> ProbeChange | None:
    if not (before.summary and after.summary):
        return None
    if before.summary.get(WEIGHTS) != after.summary.get(WEIGHTS):
        return None  # the release calls its weights otherwise, so that they are others
    if _shapes(before.summary) != _shapes(after.summary):
        return ProbeChange(Kind.SHAPES, before, after)
    size = difference(before.summary, after.summary)
    dtype = "bf16" if "bf16" in after.key.probe else "fp32"
    return ProbeChange(Kind.NUMBERS, before, after, size) if size > TOLERANCE[dtype] else None


def _shapes(summary: Mapping[str, Any]) -> dict[str, object]:
    return {name: one["shape"] for name, one in summary.items() if name != WEIGHTS}


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """Return the largest relative difference of what two summaries say of the same tensors.

    Norms are compared with each other, samples by their distance over the larger norm of samples;
    a share of finite values that changes counts as 1. 0 where no tensor is in both.
    """
    both = [name for name in before if name in after and name != WEIGHTS]
    return max((_apart(before[name], after[name]) for name in both), default=0.0)


def _apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    if not math.isclose(one["finite"], other["finite"], abs_tol=_SHARE):
        return 1.0
    samples = list(zip(one["samples"], other["samples"], strict=False))
    pairs = [(a, b) for a, b in samples if a is not None and b is not None]
    scale = max((math.hypot(*side) for side in zip(*pairs, strict=True)), default=0.0)
    apart = math.hypot(*(a - b for a, b in pairs)) / scale if scale else 0.0
    largest = max(abs(one["norm"]), abs(other["norm"]))
    return max(apart, abs(one["norm"] - other["norm"]) / largest if largest else 0.0)


def what(change: ProbeChange) -> str:
    """Return what is wrong, in a line."""
    if change.kind is Kind.NUMBERS:
        return f"relative difference {change.size:.2g}"
    if change.kind is Kind.SHAPES:
        return f"{_shape_words(change.before)} before, {_shape_words(change.after)} after"
    return change.telling.headline


def _shape_words(record: ProbeRecord) -> str:
    return ", ".join(
        f"{name} {one['shape']}" for name, one in record.summary.items() if name != WEIGHTS
    )


def name_of(kind: Kind, cause: str) -> str:
    """Return what a finding is called: the kind, and 8 hexadecimal digits."""
    return f"{kind.value.partition(' ')[0]}-{hashlib.sha256(cause.encode()).hexdigest()[:8]}"


def names_of(record: ProbeRecord) -> tuple[str, ...]:
    """Return how findings are called about what does not hold, as it breaks, goes on and ends."""
    cause = cause_of(ProbeChange(Kind.BROKEN, record, record))
    return tuple(name_of(kind, cause) for kind in (Kind.BROKEN, Kind.OTHER, Kind.FIXED))


def cause_of(change: ProbeChange) -> str:
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
