"""What the sweep says of models at somebody's version: a level of its own, below cases. Pure."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from packaging.version import Version

from repromatrix.runner.audit.questions import Level
from repromatrix.runner.document import Document, Listing, write
from repromatrix.runner.evidence.swept.history import SweepHistory
from repromatrix.runner.evidence.swept.probes import BUILD, DTYPES
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord, ProbeStatus
from repromatrix.runner.evidence.swept.triage import Triage, decision_of
from repromatrix.runner.model.families import squashed
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.text import plural, shorten

_WIDE = 160
_NONE = SweepHistory()


@dataclass(frozen=True, kw_only=True, slots=True)
class SweptAnswer:
    """What the probes in some precisions say of an architecture at a version of transformers."""

    architecture: str
    class_name: str
    version: str
    level: Level
    """Measured on that release, derived where the releases on both sides agree, or unknown."""
    rests_on: tuple[str, ...]
    """The releases that it rests on."""
    bad: tuple[ProbeRecord, ...]
    holding: int
    unknown: int
    """Probes about which the releases on both sides do not agree, or that did not answer."""
    newest_good: str
    """The newest release on which all these probes hold; empty where there is none."""
    classes: tuple[tuple[str, tuple[ProbeRecord, ...]], ...] = ()
    """Further classes by name, with what does not hold of them and is not in `bad`."""
    triage: Triage = field(default_factory=dict)
    """What was decided about findings."""

    @property
    def is_known(self) -> bool:
        """Whether anything was answered."""
        return bool(self.bad or self.holding)


def named(history: SweepHistory, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the architectures that names or globs match, as configs or as families write them."""
    parts = [part for text in patterns for part in text.split(",") if part.strip()]
    wanted = [squashed(part.strip()) for part in parts]
    return tuple(
        kind
        for kind in history.architectures
        if any(fnmatch.fnmatchcase(squashed(kind), pattern) for pattern in wanted)
    )


def swept(
    history: SweepHistory,
    kinds: Sequence[str],
    version: str,
    precisions: Collection[Precision],
    classes: SweepHistory = _NONE,
) -> tuple[SweptAnswer, ...]:
    """Return what is known of some architectures at a version; `version` may be empty.

    `classes` is what was swept of their further classes: of these is said what does not hold and
    is not said of the architecture.
    """
    answers = []
    for kind in kinds:
        whole = _answer(history, kind, version, precisions)
        known = {(record.headline, record.place) for record in whole.bad}
        further = []
        for name in classes.classes_of(kind):
            answer = _answer(classes, name, version, precisions)
            bad = [each for each in answer.bad if (each.headline, each.place) not in known]
            if bad:
                further.append((answer.class_name, tuple(bad)))
        answers.append(dataclasses.replace(whole, classes=tuple(further)))
    return tuple(answers)


def _answer(
    history: SweepHistory, kind: str, version: str, precisions: Collection[Precision]
) -> SweptAnswer:
    releases = history.measured(kind)
    level, sides = _sides(releases, version)
    keys = [key for key in history.keys(kind) if DTYPES[key.probe] in precisions]
    says = {key: _says(history, key, sides) for key in keys if sides}
    counts = Counter(
        word for key, word in says.items() if isinstance(word, str) and key.probe != BUILD
    )
    good = (
        name
        for name in reversed(releases)
        if not any(DTYPES[each.key.probe] in precisions for each in history.bad_on(kind, name))
    )
    return SweptAnswer(
        architecture=kind,
        class_name=history.architectures[kind].class_name,
        version=version,
        level=level,
        rests_on=sides,
        bad=tuple(record for record in says.values() if isinstance(record, ProbeRecord)),
        holding=counts["holds"],
        unknown=counts["unknown"],
        newest_good=next(good, ""),
    )


def _sides(releases: Sequence[str], version: str) -> tuple[Level, tuple[str, ...]]:
    """Return the release of that version, or those on both sides of it; nothing where one lacks."""
    if not version:
        return Level.UNKNOWN, ()
    ours = Version(version)
    below = [name for name in releases if Version(name) <= ours][-1:]
    above = [name for name in releases if Version(name) >= ours][:1]
    if below and below == above:
        return Level.MEASURED, (below[0],)
    return (Level.DERIVED, (*below, *above)) if below and above else (Level.UNKNOWN, ())


def _says(history: SweepHistory, key: ProbeKey, sides: Sequence[str]) -> ProbeRecord | str:
    """Return what does not hold; else `holds`, `skipped` or `unknown`."""
    records = [record for name in sides if (record := history.record(key, name)) is not None]
    bad = [record for record in records if record.status.is_bad]
    statuses = {record.status for record in records}
    if len(records) < len(sides) or ProbeStatus.UNKNOWN in statuses or 0 < len(bad) < len(sides):
        return "unknown"
    if bad:
        return bad[0]
    return "holds" if ProbeStatus.HOLDS in statuses else "skipped"


def listing(answers: Sequence[SweptAnswer]) -> Listing:
    """Return the answers for people."""
    title = "Swept: tiny random models; what needs large values or trained weights does not show."
    entries = []
    for answer in answers:
        rows = [_shown(record, answer.triage) for record in answer.bad]
        if answer.bad:
            newest = answer.newest_good
            where = f"{newest} is the newest" if newest else "There is no"
            rows.append(f"{where} swept release on which all of them hold.")
        rows += [
            f"{name}: {_shown(each, answer.triage)}" for name, bad in answer.classes for each in bad
        ]
        heading = f"{answer.architecture} ({answer.class_name}): {_summary(answer)}"
        entries.append(Listing(heading, rows))
    return Listing(title, entries)


def lines(answers: Sequence[SweptAnswer]) -> list[str]:
    """Return the answers as lines of text."""
    return write(Document(parts=[listing(answers)], data=None), "text").splitlines()


def _shown(record: ProbeRecord, triage: Triage) -> str:
    place = f" ({record.place})" if record.place else ""
    what = shorten(f"{record.headline}{place}", _WIDE)
    decided = decision_of(triage, record)
    return f"{DTYPES[record.key.probe]} {record.key.probe} {record.status}: {what} [{decided}]"


def _summary(answer: SweptAnswer) -> str:
    if not answer.is_known:
        version = f"transformers {answer.version}" if answer.version else "this set of packages"
        return f"nothing is known of {version}"
    where = f"{answer.level} on {' and '.join(answer.rests_on)}"
    bad, total = len(answer.bad), len(answer.bad) + answer.holding
    holds = "holds" if total == 1 else "hold"
    do_not = "does not hold" if bad == 1 else "do not hold"
    says = (
        f"{bad} of {plural(total, 'probe')} {do_not}"
        if bad
        else f"{plural(total, 'probe')} {holds}"
    )
    unknown = f", {answer.unknown} unknown" if answer.unknown else ""
    return f"{says}{unknown} ({where})"


def as_data(answers: Sequence[SweptAnswer]) -> list[Mapping[str, Any]]:
    """Return the answers for programs; keys and values are a contract."""
    return [
        {
            "architecture": answer.architecture,
            "class": answer.class_name,
            "level": str(answer.level),
            "rests-on": list(answer.rests_on),
            "failing": [_failing(record, answer.triage) for record in answer.bad],
            "holding": answer.holding,
            "unknown": answer.unknown,
            "newest-good": answer.newest_good or None,
            "classes": [
                {"class": name, "failing": [_failing(record, answer.triage) for record in bad]}
                for name, bad in answer.classes
            ],
        }
        for answer in answers
    ]


def _failing(record: ProbeRecord, triage: Triage) -> Mapping[str, str]:
    return {
        "probe": record.key.probe,
        "precision": DTYPES[record.key.probe],
        "outcome": str(record.status),
        "error": record.headline,
        "where": record.place,
        "decided": decision_of(triage, record),
    }
