"""Cells that want far more memory than their neighbours: suspected of a regression. Pure.

Running out of memory blames the machine and proves nothing. But where a cell runs into our own
limit again and again, and what stands beside it in the order of releases needs less than half of
that, it is hardly the machine.
"""

from __future__ import annotations

import dataclasses
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from runner.judging.axes import axes
from runner.model.cell import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.judging.verdicts import Judged
    from runner.model.case import Case
    from runner.model.cell import Environment

_RELEASES = frozenset({Source.RELEASE, Source.MAIN})
_PAIRS = frozenset({Source.RELEASE, Source.PAIR})


class Suspected(NamedTuple):
    """Our limit in MiB, how often a cell hit it, and its neighbours with what they held."""

    limit: int
    repeats: int
    neighbours: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """Say what is suspected, and why."""
        held = " and ".join(f"{name} needs {peak} MiB" for name, peak in self.neighbours)
        hit = f"above our limit of {self.limit} MiB in {self.repeats} runs"
        return f"suspected regression: {hit}, while {held}"


def suspect(
    judged: Sequence[Judged], cases: Mapping[str, Case], environments: Mapping[str, Environment]
) -> tuple[Judged, ...]:
    """Return the judged; those suspected of a regression say by which neighbours."""
    asked = {_variant(one) for one in judged if _is_hungry(one)}
    if not asked:
        return tuple(judged)
    found = list(judged)
    rows: dict[tuple[str, ...], dict[str, int]] = {}
    for place, one in enumerate(judged):
        if _is_measured(one) and _variant(one) in asked:
            rows.setdefault(_variant(one), {})[one.seen.cell.environment] = place
    for (case, *_), along in rows.items():
        for names, own in _lines(cases[case], environments):
            line = [along[name] for name in names if name in along]
            for at, place in enumerate(line):
                if judged[place].seen.cell.environment in own and _is_hungry(judged[place]):
                    beside = [*_nearest(judged, line[:at][::-1]), *_nearest(judged, line[at + 1 :])]
                    suspected = _suspected(judged[place], beside)
                    found[place] = dataclasses.replace(judged[place], suspected=suspected)
    return tuple(found)


def _is_hungry(one: Judged) -> bool:
    """Say whether a cell ran into our limit, and did so again when it was repeated."""
    seen = one.seen
    return seen.hit_limit and seen.repeats > 1 and not (seen.unstable or one.stale)


def _lines(
    case: Case, environments: Mapping[str, Environment]
) -> Iterator[tuple[list[str], frozenset[str]]]:
    """Yield the environments of each axis in order, with those that are suspected along it.

    A release stands among the pairs that are laid on it, but follows on releases alone.
    """
    for at, axis in enumerate(axes(case, environments)):
        source = {point.environment: environments[point.environment].source for point in axis}
        along = _PAIRS if at else _RELEASES
        own = frozenset(name for name, one in source.items() if (one is Source.PAIR) == (at > 0))
        yield [name for name, one in source.items() if one in along], own


def _variant(one: Judged) -> tuple[str, ...]:
    cell = one.seen.cell
    return cell.case, cell.workaround, cell.precision, cell.device


def _is_measured(one: Judged) -> bool:
    seen = one.seen
    told = seen.outcome.was_run and seen.memory is not None and not one.stale
    return told and (seen.hit_limit or not seen.outcome.blames_machine)


def _nearest(judged: Sequence[Judged], line: Iterable[int]) -> list[Judged]:
    """Return the first that stayed within the limit, if there is one."""
    return list(islice((judged[one] for one in line if not judged[one].seen.hit_limit), 1))


def _suspected(one: Judged, beside: Sequence[Judged]) -> Suspected | None:
    memory = one.seen.memory
    held = tuple(
        (near.seen.cell.environment, near.seen.memory.peak) for near in beside if near.seen.memory
    )
    if memory is None or not held or any(2 * peak >= memory.limit for _, peak in held):
        return None
    return Suspected(limit=memory.limit, repeats=one.seen.repeats, neighbours=held)
