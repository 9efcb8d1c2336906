"""What the sweep says of models at somebody's version: a level of its own, below cases. Pure."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from repromatrix.runner.audit.questions import Level
from repromatrix.runner.document import Document, Listing, write
from repromatrix.runner.evidence.swept.history import SweepHistory
from repromatrix.runner.evidence.swept.probes import BUILD, DTYPES
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord, ProbeStatus
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

    @property
    def is_known(self) -> bool:
        """Whether anything was answered."""
        return bool(self.bad or self.holding)


def plain(name: str) -> str:
    """Return the name of a family without separators: `BLIP-2` of a config is `blip2` of a case."""
    return re.sub("[._-]", "", name.lower())


def named(history: SweepHistory, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the architectures that names or globs match, as configs or as families write them."""
    wanted = [plain(part.strip()) for text in patterns for part in text.split(",") if part.strip()]
    return tuple(
        kind
        for kind in history.architectures
        if any(fnmatch.fnmatchcase(plain(kind), pattern) for pattern in wanted)
    )


def swept(
    history: SweepHistory,
    kinds: Sequence[str],
    version: str,
    precisions: Collection[Precision],
    classes: SweepHistory = _NONE,
) -> tuple[SweptAnswer, ...]:
    """Return what is known of some architectures at a version; `version` may be empty.

    `classes` is what was swept of their further classes.
    """
    found = (_answer(history, kind, version, precisions) for kind in kinds)
    return tuple(
        dataclasses.replace(one, classes=tuple(_further(one, classes, precisions))) for one in found
    )


def _further(
    whole: SweptAnswer, classes: SweepHistory, precisions: Collection[Precision]
) -> Iterator[tuple[str, tuple[ProbeRecord, ...]]]:
    """Yield the classes of which something does not hold that is not told of the architecture."""
    known = {(record.headline, record.place) for record in whole.bad}
    for name in classes.classes_of(whole.architecture):
        one = _answer(classes, name, whole.version, precisions)
        bad = tuple(each for each in one.bad if (each.headline, each.place) not in known)
        if bad:
            yield one.class_name, bad


def _answer(
    history: SweepHistory, kind: str, version: str, precisions: Collection[Precision]
) -> SweptAnswer:
    level, sides = _sides(history.measured(kind), version)
    keys = [key for key in history.keys(kind) if DTYPES[key.probe] in precisions]
    bad: list[ProbeRecord] = []
    counts: Counter[str] = Counter()
    for key in keys if sides else ():
        says = _says(history, key, sides)
        if isinstance(says, ProbeRecord):
            bad.append(says)
        elif key.probe != BUILD:
            counts[says] += 1
    one = history.architectures[kind]
    good = (
        name
        for name in reversed(history.measured(kind))
        if not any(DTYPES[each.key.probe] in precisions for each in history.bad_on(kind, name))
    )
    return SweptAnswer(
        architecture=kind,
        class_name=one.class_name,
        version=version,
        level=level,
        rests_on=sides,
        bad=tuple(bad),
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
    records = [history.record(key, name) for name in sides]
    if any(record is None or record.status is ProbeStatus.UNKNOWN for record in records):
        return "unknown"
    found = [record for record in records if record is not None]
    if all(record.status.is_bad for record in found):
        return found[0]
    if any(record.status.is_bad for record in found):
        return "unknown"
    held = any(record.status is ProbeStatus.HOLDS for record in found)
    return "holds" if held else "skipped"


def listing(answers: Sequence[SweptAnswer]) -> Listing:
    """Return the answers for people."""
    title = "Swept: tiny random models; what needs large values or trained weights does not show."
    return Listing(title, [*map(_listed, answers)])


def _listed(one: SweptAnswer) -> Listing:
    found = [_told(record) for record in one.bad]
    if one.bad:
        where = f"{one.newest_good} is the newest" if one.newest_good else "There is no"
        found.append(f"{where} swept release on which all of them hold.")
    classes = [f"{name}: {_told(record)}" for name, bad in one.classes for record in bad]
    return Listing(f"{one.architecture} ({one.class_name}): {_summary(one)}", [*found, *classes])


def lines(answers: Sequence[SweptAnswer]) -> list[str]:
    """Return the answers as lines of text."""
    return write(Document(parts=[listing(answers)], data=None), "text").splitlines()


def _told(record: ProbeRecord) -> str:
    place = f" ({record.place})" if record.place else ""
    what = shorten(f"{record.headline}{place}", _WIDE)
    return f"{DTYPES[record.key.probe]} {record.key.probe} {record.status}: {what}"


def _summary(one: SweptAnswer) -> str:
    if not one.is_known:
        version = f"transformers {one.version}" if one.version else "this set of packages"
        return f"nothing is known of {version}"
    where = f"{one.level} on {' and '.join(one.rests_on)}"
    total = len(one.bad) + one.holding
    unknown = f", {one.unknown} unknown" if one.unknown else ""
    holds = "holds" if total == 1 else "hold"
    if not one.bad:
        return f"{plural(total, 'probe')} {holds}{unknown} ({where})"
    do_not = "does not" if len(one.bad) == 1 else "do not"
    return f"{len(one.bad)} of {plural(total, 'probe')} {do_not} hold{unknown} ({where})"


def as_data(answers: Sequence[SweptAnswer]) -> list[Mapping[str, Any]]:
    """Return the answers for programs; keys and values are a contract."""
    return [
        {
            "architecture": one.architecture,
            "class": one.class_name,
            "level": str(one.level),
            "rests-on": list(one.rests_on),
            "failing": [*map(_failing, one.bad)],
            "holding": one.holding,
            "unknown": one.unknown,
            "newest-good": one.newest_good or None,
            "classes": [
                {"class": name, "failing": [*map(_failing, bad)]} for name, bad in one.classes
            ],
        }
        for one in answers
    ]


def _failing(record: ProbeRecord) -> Mapping[str, str]:
    return {
        "probe": record.key.probe,
        "precision": DTYPES[record.key.probe],
        "outcome": str(record.status),
        "error": record.headline,
        "where": record.place,
    }
