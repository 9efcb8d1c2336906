"""Shards: every cell in exactly one of them, the same on every machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from factories import case, cell, environment
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from repromatrix.runner import project
from repromatrix.runner.cli import shards as shards_command
from repromatrix.runner.cli.shards import ShardsOptions, print_shards, share
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.model.cell import PROTOCOL, belongs, obstacles
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning import shards
from repromatrix.runner.planning.selection import SelectionRequest
from repromatrix.runner.planning.shards import Shard, identity, lacking, seconds, shard, split

if TYPE_CHECKING:
    from collections.abc import Mapping

    from repromatrix.runner.project import Project

QUIET = Console(quiet=True)
BASES = st.sampled_from(["4.49.0", "4.50.0", "4.50.1", "5.0.0", "main"])
NAMES = st.builds(str.__add__, BASES, st.sampled_from(["", "+timm", "+peft0.15.2"]))
CELLS = st.dictionaries(NAMES, st.integers(0, 900))


@pytest.fixture(scope="module")
def loaded() -> Project:
    return project.load(Paths(), code=False)


@given(CELLS, st.integers(1, 9))
def test_every_environment_with_cells_is_in_exactly_one_shard_with_what_is_derived_from_it(
    cells: Mapping[str, int], count: int
) -> None:
    shares = split(cells, count)

    assert len(shares) == count
    assert sorted(name for names in shares for name in names) == sorted(
        name for name, number in cells.items() if number
    )
    bases = [{name.partition("+")[0] for name in names} for names in shares]
    assert sum(map(len, bases)) == len(set().union(*bases))


@given(CELLS, st.integers(1, 9), st.randoms())
def test_the_order_in_which_environments_are_named_changes_no_shard(
    cells: Mapping[str, int], count: int, random: st.DataObject
) -> None:
    names = list(cells)
    random.shuffle(names)  # type: ignore[attr-defined]
    shuffled = {name: cells[name] for name in names}

    expected, actual = (
        [frozenset(names) for names in split(one, count)] for one in (cells, shuffled)
    )

    assert expected == actual


@given(CELLS, st.integers(1, 9))
def test_no_shard_is_longer_than_another_by_more_than_one_release(
    cells: Mapping[str, int], count: int
) -> None:
    loads = [sum(seconds(cells[name]) for name in names) for names in split(cells, count)]
    bases: dict[str, float] = {}
    for name, number in cells.items():
        base = name.partition("+")[0]
        bases[base] = bases.get(base, 0.0) + seconds(number)

    assert max(loads) - min(loads) <= max(bases.values(), default=0.0) + 1e-9


@pytest.mark.parametrize("count", [1, 4, 12])
def test_the_cells_of_this_checkout_are_shared_out_whole(
    loaded: Project, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = loaded.cases.values()
    # Which cells there are depends on no shard: they are worked out once, and not for each.
    cells = shards_command._cells(loaded, SelectionRequest())
    monkeypatch.setattr(shards_command, "_cells", lambda *_: cells)
    shares = [
        share(loaded, SelectionRequest(), Shard(number=number, count=count))
        for number in range(1, count + 1)
    ]
    found = [name for one in shares for name in one.environments]
    # A stack whose cases all need another device has nothing to be measured.
    wanted = [
        name
        for name, place in loaded.environments.items()
        if any(belongs(one, place) and not obstacles(one, place, Device.CPU) for one in cases)
    ]

    assert sorted(found) == sorted(wanted)
    assert len({one.split for one in shares}) == 1


def test_what_is_printed_is_what_the_shards_do(
    loaded: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ShardsOptions(release=["4.50.0,4.51.0,main"], count=4)
    code = print_shards(loaded.paths, options, QUIET)
    printed = json.loads(capsys.readouterr().out)
    shares = [share(loaded, options, shard(line["shard"])) for line in printed["include"]]

    assert code is ExitCode.AS_EXPECTED
    assert [line["name"] for line in printed["include"]] == [f"{n}-of-4" for n in range(1, 5)]
    assert [line["environments"] for line in printed["include"]] == [
        len(one.environments) for one in shares
    ]
    assert shares[3].environments == frozenset()


def test_a_split_is_another_for_other_cells_cases_pins_counts_and_ways_of_measuring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toy, other = case(), case(code='"""A toy must not melt."""\n')
    here = environment()
    base = identity([cell()], {toy.name: toy}, {here.name: here}, 4)
    held = environment(accelerate="1.0")

    assert base == identity([cell()], {toy.name: toy}, {here.name: here}, 4)
    others = {
        identity([], {toy.name: toy}, {here.name: here}, 4),
        identity([cell()], {toy.name: other}, {here.name: here}, 4),
        identity([cell()], {toy.name: toy}, {here.name: held}, 4),
        identity([cell()], {toy.name: toy}, {here.name: here}, 5),
    }
    monkeypatch.setattr(shards, "PROTOCOL", PROTOCOL + 1)
    others.add(identity([cell()], {toy.name: toy}, {here.name: here}, 4))
    assert len(others - {base}) == 5


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({("1/2", "a"), ("2/2", "a")}, ""),
        ({("1/1", "a")}, ""),
        (set(), "no shard that was measured to its end"),
        ({("2/2", "a")}, "no 1/2, or not measured to its end"),
        ({("2/4", "a")}, "no 1/4, 3/4 and 4/4, or not measured to its end"),
        (
            {("1/2", "a"), ("2/2", "b")},
            "shards of 2 splits: of other commits, or with other options",
        ),
    ],
)
def test_what_a_split_lacks_is_named(found: set[tuple[str, str]], expected: str) -> None:
    assert expected == lacking(found)
