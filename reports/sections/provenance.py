"""What everything was measured on: a line on every page, a sentence per kind of machine in files.

A page counts the cells of its own subject.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from repromatrix.reports.text import visible
from repromatrix.reports.view import Survey
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.cell import Environment
from repromatrix.runner.model.observation import LOCAL, MERGED, UNPUBLISHED
from repromatrix.runner.text import join, plural

NOTHING = "Nothing has been measured yet."
_NOTHING_HERE = "Nothing of this has been measured yet."


class Machine(NamedTuple):
    """Where cells were run, and where that is written."""

    device: str
    hardware: str
    torch: str
    python: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredOn:
    """The line for pages, the sentences for files, and the few words that a badge has room for."""

    cells: Mapping[Machine, int]
    """How many cells each machine ran."""
    line: str
    sentences: tuple[str, ...]
    brief: str

    @property
    def summary(self) -> str:
        """Kinds of device, versions of torch and the newest snapshot of what was measured."""
        return visible(f"Measured {_where(self.cells)}")


class Settings:
    """On what the cells of a survey were run, counted once for every page."""

    def __init__(self, survey: Survey) -> None:
        """Count the cells of each case and in each environment."""
        self._survey = survey
        # Pages know cases by the names that can be read.
        self._names = {visible(name): name for name in survey.cases}
        self._of_case: dict[str, Counter[Machine]] = {name: Counter() for name in survey.cases}
        self._in: defaultdict[str, Counter[Machine]] = defaultdict(Counter)
        for row in survey.rows.values():
            if row.seen.outcome.is_evidence:
                machine = _machine(row)
                self._of_case[row.seen.cell.case][machine] += 1
                self._in[row.seen.cell.environment][machine] += 1

    def whole(self) -> MeasuredOn:
        """Return what all cells were measured on."""
        return _told(self._of_case.values(), "", NOTHING)

    def of_cases(self, names: Iterable[str], subject: str) -> MeasuredOn:
        """Return what some cases were measured on; `subject` is the page's name for them."""
        known = (self._names.get(visible(name)) for name in names)
        return _told((self._of_case[name] for name in known if name), f" of {subject}")

    def of_release(self, name: str) -> MeasuredOn:
        """Return on what the cells in the column of a release were measured."""
        return self._where(lambda one: one.column == name, " on this release")

    def with_package(self, name: str) -> MeasuredOn:
        """Return on what was measured where a package was installed."""
        return self._where(lambda one: bool(one.version(name)), f" with {name} installed")

    def _where(self, holds: Callable[[Environment], bool], which: str) -> MeasuredOn:
        names = (one.name for one in self._survey.environments if holds(one))
        return _told((self._in[name] for name in names), which)


def _machine(row: Judged) -> Machine:
    ran, where = row.seen.provenance, row.seen.cell.device.value
    return Machine(where, ran.hardware, ran.torch_build, ran.python, row.seen.source)


def _told(
    counts: Iterable[Counter[Machine]], which: str, nothing: str = _NOTHING_HERE
) -> MeasuredOn:
    found: Counter[Machine] = Counter()
    for one in counts:
        found.update(one)
    machines = sorted(found)
    several = len({machine.device for machine in machines}) > 1
    total = f"{plural(found.total(), 'cell')}{which}{': ' if several else ', measured '}"
    line = f"{total}{_where(found)}" if found else nothing
    return MeasuredOn(
        line=visible(line),
        cells={one: found[one] for one in machines},
        sentences=tuple(_sentence(one, found[one], which) for one in machines) or (nothing,),
        brief=visible("; ".join(dict.fromkeys(map(_brief, machines)))) or "nothing measured",
    )


def _where(cells: Mapping[Machine, int]) -> str:
    devices = sorted({machine.device for machine in cells})
    told: list[str] = []
    for device in devices:
        here = [machine for machine in cells if machine.device == device]
        torch = join(sorted({machine.torch.partition("+")[0] for machine in here}))
        # A GPU is lent by the minute: how little it measured must not be taken for all.
        number = f"{plural(sum(cells[one] for one in here), 'cell')} " if devices[1:] else ""
        name = "a GPU" if device == "cuda" else "a CPU"
        told.append(f"{number}on {name} with torch {torch}")
    others = "" if "cuda" in devices else "; a GPU runs other kernels"
    return f"{join(told)}{others}. Data: {_data(cells)}."


def _data(cells: Mapping[Machine, int]) -> str:
    """Return the newest snapshot, and beside it how many cells are of no snapshot."""
    snapshots = {machine.source for machine in cells} - UNPUBLISHED
    if not snapshots:
        return max(machine.source for machine in cells)
    own = Counter({LOCAL: 0, MERGED: 0})
    for machine, number in cells.items():
        own[machine.source] += number
    beside = ((own[LOCAL], "measured here"), (own[MERGED], f"of {MERGED}"))
    return "; ".join([max(snapshots), *(f"{plural(n, 'cell')} {of}" for n, of in beside if n)])


def _sentence(one: Machine, cells: int, which: str) -> str:
    return visible(
        f"Measured on {one.device} ({one.hardware}), torch {one.torch}, Python {one.python}: "
        f"{plural(cells, 'cell')}{which} from {one.source}."
    )


def _brief(one: Machine) -> str:
    """Return the device, torch without its build, and the line of Python."""
    torch, python = one.torch.partition("+")[0], ".".join(one.python.split(".")[:2])
    return f"{one.device}, torch {torch}, Python {python}"
