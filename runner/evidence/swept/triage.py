"""What somebody decided about findings: a hand-written file, by their names."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from repromatrix.runner.errors import Fault, InvalidValue, Problem, RunnerError

NAME = "triage.toml"
_WHERE = f"reports/published/sweep/{NAME}"
_KEYS = {"verdict", "says", "case", "reports", "searched"}


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
    case: str = ""
    """The case that came from it or had it before."""
    reports: tuple[str, ...] = ()
    """Those that describe the same cause."""
    searched: tuple[str, ...] = ()
    """The queries with which reports were looked for."""

    @property
    def is_new(self) -> bool:
        """Whether a library errs, reports were looked for, and none describes it."""
        errs = self.verdict in {TriageVerdict.BUG, TriageVerdict.REGRESSION}
        return errs and bool(self.searched) and not self.reports

    @property
    def cause(self) -> str:
        """What findings with the same cause share: the case, or else the sentence."""
        return self.case or self.says


def load_triage(folder: Path) -> dict[str, TriagedFinding]:
    """Return the decisions by the names of findings; raises RunnerError with every fault."""
    read, faults = read_triage(folder)
    if faults:
        raise RunnerError(faults)
    return read


def read_triage(folder: Path) -> tuple[dict[str, TriagedFinding], list[Fault]]:
    """Return the decisions that are sound, and every fault of the others."""
    path, where = folder / NAME, _WHERE
    if not path.exists():
        return {}, []
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        return {}, [Problem(where, f"invalid TOML: {error}")]
    read: dict[str, TriagedFinding] = {}
    faults: list[Fault] = []
    for name, entry in table.items():
        wrong = [*_faults(f"{where}: {name}", entry)]
        faults += wrong
        if not wrong:
            read[name] = TriagedFinding(
                name=name,
                verdict=TriageVerdict(entry["verdict"]),
                says=entry["says"],
                case=entry.get("case", ""),
                reports=tuple(entry.get("reports", ())),
                searched=tuple(entry.get("searched", ())),
            )
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
    for key, what in (("reports", "addresses"), ("searched", "queries")):
        texts = entry.get(key, [])
        if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
            yield Problem(f"{where}: {key}", f"it is no list of {what}", "")
    if not isinstance(entry.get("case", ""), str):
        yield Problem(f"{where}: case", "it is no name", "")


def unknown_names(
    triage: Mapping[str, TriagedFinding], findings: Collection[str], cases: Collection[str]
) -> Iterator[Fault]:
    """Yield a fault for each decision about no published finding, or with no such case."""
    for name, one in triage.items():
        where = f"{_WHERE}: {name}"
        if name not in findings:
            yield Problem(where, "no published finding is called so", "Take the decision out.")
        if one.case and one.case not in cases:
            yield Problem(f"{where}: case", f"there is no case {one.case!r}", "")
