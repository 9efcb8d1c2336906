"""A run in shards: the same environments in the same shard, whoever works it out. Pure.

The unit is an environment with all that is derived from it (`4.50.0`, `4.50.0+timm`,
`4.50.0+peft0.15.2`): they share nearly all packages, which one machine then fetches once, and what
`main` holds is resolved on one machine alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import fsum

from repromatrix.runner.errors import InvalidValue, refuse
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import PROTOCOL, Cell, Environment
from repromatrix.runner.text import join

IMPORT, BUILD, CELL = 4.0, 6.0, 0.15
"""Seconds on one core: to import the libraries, to build an environment, and of a cell (0.09 s in
the mean of the corpus, and its fork). What is committed holds no times, and what this machine
measured would split otherwise on another one."""

_SHARD = re.compile(r"([0-9]{1,6})/([0-9]{1,6})", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """One of several shares of a run, counted from 1."""

    number: int
    count: int

    def __str__(self) -> str:
        """As it is typed."""
        return f"{self.number}/{self.count}"


def shard(text: str) -> Shard:
    """Read `2/4`; raises RunnerError."""
    match = _SHARD.fullmatch(text)
    if match:
        number, count = map(int, match.groups())
        if 1 <= number <= count:
            return Shard(number=number, count=count)
    raise refuse(InvalidValue("--shard", text, "i/N with i from 1 to N, such as 1/4"))


def seconds(cells: int) -> float:
    """Return what an environment with so many cells takes, built anew, on one core."""
    return IMPORT + BUILD + CELL * cells if cells else 0.0


def split(cells: Mapping[str, int], count: int) -> tuple[tuple[str, ...], ...]:
    """Return the environments of each shard; `cells` says how many each one has.

    The heaviest base goes to the lightest shard until all are placed, so that each is in exactly
    one; an environment without cells is in none.
    """
    bases: dict[str, list[str]] = {}
    for name, number in cells.items():
        if number:
            bases.setdefault(name.partition("+")[0], []).append(name)
    # Exact: two bases that weigh the same must do so whatever the order of their names.
    weights = {base: fsum(seconds(cells[name]) for name in names) for base, names in bases.items()}
    shares: list[list[str]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for base in sorted(bases, key=lambda base: (-weights[base], base)):
        place = loads.index(min(loads))
        shares[place] += bases[base]
        loads[place] += weights[base]
    place_of = {name: number for number, name in enumerate(cells)}
    return tuple(tuple(sorted(names, key=place_of.__getitem__)) for names in shares)


def identity(
    cells: Iterable[Cell],
    cases: Mapping[str, Case],
    environments: Mapping[str, Environment],
    count: int,
) -> str:
    """Return what tells this split from that of other cells, cases, pins or numbers of shards.

    What was measured in another way is of another split: it answers for nothing of this one.
    """
    content = hashlib.sha256(f"{count} {PROTOCOL}".encode())
    for cell in sorted(cells):
        digests = cases[cell.case].digest, environments[cell.environment].digest
        content.update(repr((*map(str, cell), *digests)).encode())
    return content.hexdigest()[:16]


def lacking(ended: Collection[tuple[str, str]]) -> str:
    """Say what shards that ended, each with its split, lack of being a whole one; else nothing."""
    splits = {split for _, split in ended}
    if not splits:
        return "no shard that was measured to its end"
    if len(splits) > 1:
        return f"shards of {len(splits)} splits: of other commits, or with other options"
    numbers = {shard(text).number for text, _ in ended}
    count = max(shard(text).count for text, _ in ended)
    missing = [f"{number}/{count}" for number in range(1, count + 1) if number not in numbers]
    return f"no {join(missing)}, or not measured to its end" if missing else ""
