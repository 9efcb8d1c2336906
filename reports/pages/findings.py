"""What each release changed for all architectures, and what does not hold on the newest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

from repromatrix.reports.pages.architecture import address_of
from repromatrix.reports.text import Link, link_to, page_of, shortened, visible
from repromatrix.runner.evidence.swept.changes import Kind
from repromatrix.runner.evidence.swept.history import SweepHistory
from repromatrix.runner.evidence.swept.published import BAD_IN_16_BIT, BAD_IN_FP32, PublishedFinding
from repromatrix.runner.evidence.swept.records import counted_kinds
from repromatrix.runner.evidence.swept.triage import Triage, TriagedFinding, TriageVerdict, decided
from repromatrix.runner.text import join, plural

_LONGEST = 240


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingLine:
    """One finding: what the same cause did to some architectures."""

    name: str
    architectures: tuple[Link, ...]
    probes: str
    says: str
    place: str
    decisions: tuple[Mapping[str, Any], ...]
    undecided: str
    """The architectures that no decision is about; empty where nothing was decided at all."""

    @property
    def counted(self) -> str:
        """How many architectures, or further classes, these are."""
        return counted_kinds([link.text for link in self.architectures])


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseFindings:
    """What a release changed against the one that was measured before it."""

    release: str
    against: str
    run: int
    """How many architectures alone were run, as its neighbours differ on them; 0 where all were."""
    kinds: tuple[tuple[str, tuple[FindingLine, ...]], ...]

    @property
    def changed(self) -> int:
        """How many architectures it changed."""
        return len(
            {link.text for _, lines in self.kinds for one in lines for link in one.architectures}
        )

    @property
    def says(self) -> str:
        """How many findings it has, which is not how many architectures, and of which kinds."""
        number = plural(sum(len(lines) for _, lines in self.kinds), "finding")
        counts = ", ".join(f"{len(lines)} {head.lower()}" for head, lines in self.kinds)
        return f"{number}: {counts}" if counts else "nothing changed"


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingsPage:
    """All findings, the newest release first."""

    releases: tuple[ReleaseFindings, ...]
    newest: str
    live: tuple[FindingLine, ...]
    """What does not hold in 16 bit on the newest release."""
    live_in_fp32: tuple[FindingLine, ...]
    """What does not hold there in fp32."""
    measured: str
    """How many architectures were built on the newest release."""
    decided: str
    """How many findings were decided to be what; empty where none was."""
    classes: FindingsPage | None = None
    """The same about further classes of the architectures; None where none was run."""


def findings_page(
    history: SweepHistory,
    found: Iterable[PublishedFinding],
    triage: Triage | None = None,
    classes: FindingsPage | None = None,
) -> FindingsPage:
    """Return the page; without a history it is empty. `classes` is that of further classes."""
    triage = triage or {}
    names = [*history.releases]
    by_pair: dict[tuple[str, str], list[PublishedFinding]] = {}
    for one in found:
        by_pair.setdefault((one.release, one.against), []).append(one)
    newest = names[-1] if names else ""
    return FindingsPage(
        releases=tuple(
            _release(history, (against, release), by_pair.get((release, against), []), triage)
            for against, release in reversed([*pairwise(names)])
        ),
        newest=newest,
        live=_live(by_pair.get((newest, ""), []), BAD_IN_16_BIT, triage),
        live_in_fp32=_live(by_pair.get((newest, ""), []), BAD_IN_FP32, triage),
        decided=_counted(chain.from_iterable(triage.values())),
        measured=plural(history.built(newest), "architecture"),
        classes=classes if classes and classes.newest else None,
    )


def _live(found: Iterable[PublishedFinding], kind: str, triage: Triage) -> tuple[FindingLine, ...]:
    return tuple(_finding(one, triage) for one in found if one.kind == kind)


def _counted(triage: Iterable[TriagedFinding]) -> str:
    counts = Counter(one.verdict for one in triage)
    return join([f"{counts[verdict]} {verdict}" for verdict in TriageVerdict if counts[verdict]])


def _release(
    history: SweepHistory,
    sides: tuple[str, str],
    found: Iterable[PublishedFinding],
    triage: Triage,
) -> ReleaseFindings:
    against, release = sides
    by_kind: dict[str, list[FindingLine]] = {kind: [] for kind in Kind}
    for one in found:
        by_kind[one.kind].append(_finding(one, triage))
    return ReleaseFindings(
        release=release,
        against=against,
        run=len(history.releases[release].chosen),
        kinds=tuple((Kind(kind).head, tuple(some)) for kind, some in by_kind.items() if some),
    )


def _finding(one: PublishedFinding, triage: Triage) -> FindingLine:
    kinds = one.architectures.split()
    decisions, undecided = decided(triage, one.name, kinds)
    apart = len(decisions) > 1 or bool(undecided)
    return FindingLine(
        name=one.name,
        architectures=tuple(Link(text=visible(kind), href=address_of(kind)) for kind in kinds),
        probes=", ".join(one.probes.split()),
        says=shortened(one.what, _LONGEST),
        place=visible(one.place),
        decisions=tuple(_decision(decision, apart=apart) for decision in decisions),
        undecided=visible(", ".join(undecided)) if triage else "",
    )


def _decision(one: TriagedFinding, *, apart: bool) -> Mapping[str, Any]:
    """Return what was decided; `about` which architectures, where others have the same name."""
    return {
        "verdict": one.verdict.value,
        "about": visible(", ".join(one.architectures)) if apart else "",
        "why": visible(one.says),
        "case": Link(text=one.case, href=page_of(one.case)) if one.case else None,
        "reports": tuple(map(link_to, one.reports)),
        "searched": visible("; ".join(one.searched)) if one.is_new else "",
    }


def by_release(page: FindingsPage) -> Mapping[str, ReleaseFindings]:
    """Return what each release changed, by its name."""
    return {one.release: one for one in page.releases}
