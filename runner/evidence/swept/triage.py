"""What somebody decided about findings: a hand-written file, by their names and architectures."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from repromatrix.runner.errors import Fault, InvalidValue, Problem, RunnerError
from repromatrix.runner.evidence.swept.changes import names_of
from repromatrix.runner.evidence.swept.records import ProbeRecord, architecture_of
from repromatrix.runner.text import join

NAME, MECHANISMS = "triage.toml", "mechanisms.toml"
_FOLDER = "reports/published/sweep"
_WHERE = f"{_FOLDER}/{NAME}"
UNDECIDED, _SAME = "undecided", "Say the same in both."

_ERRS = {"bug", "regression"}


class TriageVerdict(StrEnum):
    """What a finding is."""

    BUG = "bug"
    """The library errs, and has done so for as long as it was measured."""
    REGRESSION = "regression"
    """It errs since a release that was measured."""
    INTENDED = "intended"
    """A release changed it on purpose."""
    BY_DESIGN = "by design"
    """The library never offered it."""
    ARTEFACT = "artefact"
    """The tiny model or the probe is at fault."""

    @property
    def is_true(self) -> bool:
        """Whether the library changed or errs."""
        return self not in {TriageVerdict.ARTEFACT, TriageVerdict.BY_DESIGN}


@dataclass(frozen=True, kw_only=True, slots=True)
class TriagedFinding:
    """What somebody decided about a finding."""

    name: str
    verdict: TriageVerdict
    says: str
    """Why, in a sentence."""
    architectures: tuple[str, ...] = ()
    """Those that it is about, with all their classes; others of the same name are undecided."""
    case: str = ""
    """The case that came from it or had it before."""
    mechanism: str = ""
    """The one of the table of mechanisms that it is an instance of."""
    reports: tuple[str, ...] = ()
    """Those that describe the same cause."""
    searched: tuple[str, ...] = ()
    """The queries with which reports were looked for."""

    @property
    def is_new(self) -> bool:
        """Whether a library errs, reports were looked for, and none describes it."""
        return self.verdict in _ERRS and bool(self.searched) and not self.reports


Triage: TypeAlias = Mapping[str, tuple[TriagedFinding, ...]]
"""The decisions by the name of the finding: architectures that share one may differ."""
_KEYS = {field.name for field in fields(TriagedFinding)} - {"name"}
_LISTS = {"architectures": "names", "reports": "addresses", "searched": "queries"}


def decided(
    triage: Triage, name: str, kinds: Iterable[str]
) -> tuple[tuple[TriagedFinding, ...], tuple[str, ...]]:
    """Return the decisions about a finding of some architectures or classes, and which have none.

    It is named by its words and place: a later architecture with its name may have another cause.
    """
    architectures = dict.fromkeys(map(architecture_of, kinds))
    some = tuple(
        one
        for one in triage.get(name, ())
        if not architectures.keys().isdisjoint(one.architectures)
    )
    known = {kind for one in some for kind in one.architectures}
    return some, tuple(kind for kind in architectures if kind not in known)


def decision_of(triage: Triage, record: ProbeRecord) -> str:
    """Return what was decided about what does not hold: `broken-fdc085bc: bug`, or `undecided`."""
    for name in names_of(record):
        for one in decided(triage, name, [record.key.kind])[0]:
            return f"{name}: {one.verdict}"
    return UNDECIDED


def load_triage(folder: Path) -> dict[str, tuple[TriagedFinding, ...]]:
    """Return the decisions by the names of findings; raises RunnerError with every fault."""
    read, faults = read_triage(folder)
    if faults:
        raise RunnerError(faults)
    return read


def read_triage(
    folder: Path,
) -> tuple[dict[str, tuple[TriagedFinding, ...]], list[Fault]]:
    """Return the decisions that are sound, and every fault of the others."""
    path, where = folder / NAME, _WHERE
    if not path.exists():
        return {}, []
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        return {}, [Problem(where, f"invalid TOML: {error}")]
    read: dict[str, tuple[TriagedFinding, ...]] = {}
    faults: list[Fault] = []
    for name, entries in table.items():
        for entry in entries if isinstance(entries, list) else [entries]:
            wrong = [*_faults(f"{where}: {name}", entry)]
            faults += wrong
            if not wrong:
                texts = {key: tuple(entry.get(key, ())) for key in _LISTS}
                one = {**entry, **texts, "verdict": TriageVerdict(entry["verdict"])}
                read[name] = (*read.get(name, ()), TriagedFinding(name=name, **one))
    return read, faults


def _faults(where: str, entry: object) -> Iterator[Fault]:
    if not isinstance(entry, dict):
        yield Problem(where, "it is no table", "Write [NAME] and its keys below.")
        return
    for key in sorted(entry.keys() - _KEYS):
        yield Problem(
            where, f"{key!r} is no key of a decision", f"Keys: {', '.join(sorted(_KEYS))}."
        )
    verdict, says = entry.get("verdict"), entry.get("says")
    if verdict not in [*TriageVerdict]:
        yield InvalidValue(f"{where}: verdict", str(verdict), ", ".join(TriageVerdict), "")
    if not isinstance(says, str) or not says.strip().endswith("."):
        yield Problem(f"{where}: says", "it is no sentence", "Say why, and end with a full stop.")
    for key, what in _LISTS.items():
        texts = entry.get(key, [])
        if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
            yield Problem(f"{where}: {key}", f"it is no list of {what}", "")
    for key in ("case", "mechanism"):
        if not isinstance(entry.get(key, ""), str):
            yield Problem(f"{where}: {key}", "it is no name", "")


def unknown_names(
    triage: Triage, findings: Mapping[str, Collection[str]], kinds: Mapping[str, str]
) -> Iterator[Fault]:
    """Yield a fault for each decision about no published finding, and for what it names in vain.

    `findings` are the architectures of each published finding, `kinds` those of cases.
    """
    for name, some in triage.items():
        where, had = f"{_WHERE}: {name}", findings.get(name, ())
        if not had:
            yield Problem(where, "no published finding is called so", "Take the decision out.")
            continue
        named = [kind for one in some for kind in one.architectures or [""]]
        if not {*named} <= {*had} or len({*named}) < len(named):
            never = join(sorted({*named} - {*had, ""})) or "none, or the same one in two decisions"
            fix = f"It was found in {join(sorted(had))}."
            yield Problem(f"{where}: architectures", f"it names {never}", fix)
        for one in some:
            if one.verdict in _ERRS and not (one.case or one.reports or one.searched):
                yield Problem(where, "no case, report or search", "Search for reports: `searched`.")
        for case in {one.case for one in some} - {"", *kinds}:
            yield Problem(f"{where}: case", f"there is no case {case!r}", "")


def contradictions(folder: Path, triage: Triage, kinds: Mapping[str, str]) -> Iterator[Fault]:
    """Yield where cases and decisions are other than what the table says of their mechanism.

    `kinds` are those of cases. A decision with a case is what its case is, mechanism or none.
    """
    path = folder / MECHANISMS
    table = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    of_case = {case: name for name, entry in table.items() for case in entry["cases"]}
    for case, name in of_case.items():
        if (kinds.get(case) == "bug") is not (table[name]["verdict"] == "bug"):
            what = f"{case} is {kinds.get(case, 'no case')}, not {table[name]['verdict']}"
            yield Problem(f"{_FOLDER}/{MECHANISMS}: {name}: cases", what, _SAME)
    for one in chain.from_iterable(triage.values()):
        name = of_case.get(one.case, one.mechanism)
        wanted = table[name]["verdict"] if name in table else kinds.get(one.case, str(one.verdict))
        agrees = one.verdict is TriageVerdict.INTENDED or (one.verdict in _ERRS) is (
            wanted in _ERRS
        )
        if not agrees or one.mechanism != name or name not in {"", *table}:
            what = f"{one.verdict} and mechanism {one.mechanism!r} are not {wanted} and {name!r}"
            yield Problem(f"{_WHERE}: {one.name}", what, _SAME)
