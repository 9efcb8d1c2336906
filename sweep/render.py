"""Findings and coverage in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from repromatrix.runner.evidence.swept.changes import Kind, what
from repromatrix.runner.evidence.swept.probes import BUILD
from repromatrix.runner.evidence.swept.records import ProbeRecord, ProbeStatus, counted_kinds
from repromatrix.runner.evidence.swept.triage import UNDECIDED, Triage, decided
from repromatrix.runner.text import join, plural, shorten
from repromatrix.sweep.findings import SweepFinding
from repromatrix.sweep.making import MadeRecipes

_WIDE = 160
_NAMED = 6
"""Architectures that a finding names."""


def told(
    found: Sequence[SweepFinding],
    listed: int,
    triage: Triage | None = None,
) -> Iterator[str]:
    """Yield findings as lines, grouped by kind; `listed` is how many of a kind are spelled out."""
    for kind in Kind:
        some = [one for one in found if one.kind is kind]
        if not some:
            continue
        yield f"{kind.head}: {plural(len(some), 'finding')}"
        for finding in some[:listed]:
            yield from _lines(finding)
            decisions, undecided = decided(triage or {}, finding.name, finding.kinds)
            for one in decisions:
                case = f" ({one.case})" if one.case else ""
                yield f"      {one.verdict}: {one.says}{case}"
            if triage and undecided:
                yield f"      {UNDECIDED}: {join(undecided)}"
        if len(some) > listed:
            yield f"  … and {len(some) - listed} more (--all lists them)"


def _lines(finding: SweepFinding) -> Iterator[str]:
    kinds = finding.kinds
    more = f" and {len(kinds) - _NAMED} more" if len(kinds) > _NAMED else ""
    yield f"  {finding.name}  {counted_kinds(kinds)}: {join(kinds[:_NAMED])}{more}"
    change = finding.changes[0]
    place = f" ({change.telling.place})" if change.telling.place else ""
    yield f"      {join(finding.probes[:_NAMED])}: {shorten(what(change) + place, _WIDE)}"


def counted(found: Iterable[ProbeRecord]) -> str:
    """Return how probes ended on a release: `4,120 hold, 31 fail, 12 differ, 900 skipped`."""
    counts = Counter(
        record.status
        for record in found
        if record.key.probe != BUILD or record.status is not ProbeStatus.HOLDS
    )
    words = {
        ProbeStatus.HOLDS: "hold",
        ProbeStatus.FAILS: "fail",
        ProbeStatus.DIFFERS: "differ",
        ProbeStatus.SKIPPED: "do not apply",
        ProbeStatus.UNKNOWN: "are unknown",
    }
    parts = [f"{counts[status]:,} {word}" for status, word in words.items() if counts[status]]
    return join(parts) or "nothing was run"


def coverage(release: str, made: MadeRecipes) -> str:
    """Return which architectures of a release have a recipe, and why others have none."""
    kinds = Counter(one.kind for one in made.refused.values())
    counts = f"{len(made.known)} known, {len(made.made)} made, {len(made.refused)} refused"
    lines = [f"{release}: recipes: {counts}"]
    lines += [f"  {number} refused: {kind}" for kind, number in kinds.most_common()]
    lines += [
        f"    {one.architecture} ({one.kind}): {shorten(one.reason, _WIDE)}"
        for one in sorted(made.refused.values())
    ]
    return "\n".join(lines)
