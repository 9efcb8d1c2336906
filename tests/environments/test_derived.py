"""Derived environments: pairs and extras, from names and locks to cells, axes and ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from factories import case, cell, environment, environments, seen

from repromatrix.runner.environments import locks
from repromatrix.runner.judging.ranges import Point, axes, ranges_along
from repromatrix.runner.model.cell import Source, belongs
from repromatrix.runner.model.lock import difference, overlaid, read_lock
from repromatrix.runner.model.outcomes import Outcome
from repromatrix.runner.planning.selection import environments_of

if TYPE_CHECKING:
    from repromatrix.runner.model.matrix import Matrix

BASE = """\
# Made by: nox -s lock -- 4.50.0
# input: 0123456789abcdef
numpy==2.2.0 ; python_full_version >= '3.11' \\
    --hash=sha256:aa \\
    --hash=sha256:bb
peft==0.16.0 \\
    --hash=sha256:cc
"""
CHANGED = "peft==0.15.2 \\\n    --hash=sha256:dd\n"
ADDED = "timm==1.0.0 \\\n    --hash=sha256:ee\n"
PAIRS = 'environments = ["4.50.0+peft0.15.2", "4.50.0+peft0.17.0"]\n'


def test_a_derived_lock_keeps_its_base_but_for_what_it_changes() -> None:
    base = read_lock(BASE, "4.50.0", "locks/4.50.0.txt")
    pair = overlaid(base, read_lock(CHANGED, "4.50.0+peft0.15.2", "pair.txt"))
    more = overlaid(base, read_lock(ADDED, "4.50.0+timm", "extra.txt"))
    here = {"python_full_version": "3.11.0"}

    assert pair.versions(here) == {"numpy": "2.2.0", "peft": "0.15.2"}
    assert more.versions(here) == {"numpy": "2.2.0", "peft": "0.16.0", "timm": "1.0.0"}
    assert read_lock(pair.text, "", "").versions(here) == pair.versions(here)
    assert len({base.digest, pair.digest, more.digest}) == 3


def test_of_a_resolution_only_what_its_base_does_not_have_is_written() -> None:
    whole = BASE.replace("peft==0.16.0 \\\n    --hash=sha256:cc\n", CHANGED) + ADDED

    assert difference(BASE, whole) == CHANGED + ADDED
    assert difference(BASE, BASE) == ""


def test_a_derived_lock_is_stale_when_its_base_or_its_name_changes(matrix: Matrix) -> None:
    base = read_lock(BASE, "4.50.0", "")
    other = read_lock(BASE + ADDED, "4.50.0", "")

    assert locks.derived_inputs(matrix, base, "4.50.0+timm") == (
        f"on 4.50.0 {base.digest}",
        "timm",
        "as of 2025-03-28",
    )
    assert locks.derived_inputs(matrix, base, "4.50.0+timm") != locks.derived_inputs(
        matrix, other, "4.50.0+timm"
    )


def test_a_case_has_cells_where_its_extras_are_and_in_the_pairs_that_it_names() -> None:
    plain, paired = case(), case(PAIRS)
    extended = case(dependencies=("torch", "transformers", "timm"), extras=("timm",))
    places = [
        environment("4.50.0"),
        environment("4.50.0+timm"),
        environment("4.50.0+peft0.15.2", source=Source.PAIR),
        environment("main+timm", source=Source.MAIN),
    ]

    assert [[belongs(one, place) for place in places] for one in (plain, extended, paired)] == [
        [True, False, False, False],
        [False, True, False, True],
        [True, False, True, False],
    ]


def test_a_release_stands_for_what_is_laid_on_it_and_pairs_are_named() -> None:
    names = ["4.49.0", "4.50.0", "main", "4.49.0+timm", "4.50.0+timm", "4.50.0+peft0.15.2"]

    assert environments_of(["4.50.0"], names) == ["4.50.0", "4.50.0+timm"]
    assert environments_of([">=4.50"], names) == ["4.50.0", "4.50.0+timm"]
    assert environments_of(["4.50.0+peft0.15.2"], names) == ["4.50.0+peft0.15.2"]
    assert environments_of([], names) == names


def test_pairs_with_a_package_that_releases_have_not_share_an_axis_along_the_releases() -> None:
    names = ("4.49.0+flash-attn2.7.4", "4.50.0+flash-attn2.7.4")
    paired = case(f"environments = {[*names]}\n".replace("'", '"'))
    pairs = {
        name: environment(name, source=Source.PAIR, **{"flash-attn": "2.7.4"}) for name in names
    }
    found = axes(paired, environments("4.49.0", "4.50.0") | pairs)
    told = {
        names[0]: seen(Outcome.FAILS, cell(names[0])),
        names[1]: seen(Outcome.PASSES, cell(names[1])),
    }

    line = tuple(Point(f"{name.partition('+')[0]} with flash-attn 2.7.4", name) for name in names)
    assert found[1:] == (line,)
    assert [one.text for one in ranges_along(found[1], told)] == [
        "4.49.0 with flash-attn 2.7.4, fixed in 4.50.0 with flash-attn 2.7.4"
    ]

    newer = "4.49.0+flash-attn2.8.3"
    pairs[newer] = environment(newer, source=Source.PAIR, **{"flash-attn": "2.8.3"})
    paired = case(f'environments = ["{newer}", "{names[0]}", "{names[1]}"]\n')
    found = axes(paired, environments("4.49.0", "4.50.0") | pairs)
    versions = (
        Point("flash-attn 2.7.4 on 4.49.0", names[0]),
        Point("flash-attn 2.8.3 on 4.49.0", newer),
    )
    assert {*found[1:]} == {versions, line}


def test_the_versions_of_a_pair_are_an_axis_on_which_the_release_has_its_place() -> None:
    known = environments("4.49.0") | {
        "4.50.0": environment("4.50.0", peft="0.16.0"),
        "main": environment("main", source=Source.MAIN),
        "4.50.0+peft0.15.2": environment("4.50.0+peft0.15.2", source=Source.PAIR, peft="0.15.2"),
        "4.50.0+peft0.17.0": environment("4.50.0+peft0.17.0", source=Source.PAIR, peft="0.17.0"),
    }
    releases, versions = axes(case(PAIRS), known)

    assert releases == tuple(Point(name, name) for name in ("4.49.0", "4.50.0", "main"))
    assert versions == (
        Point("peft 0.15.2 on 4.50.0", "4.50.0+peft0.15.2"),
        Point("peft 0.16.0 on 4.50.0", "4.50.0"),
        Point("peft 0.17.0 on 4.50.0", "4.50.0+peft0.17.0"),
    )
    told = {
        "4.49.0": seen(Outcome.FAILS, cell("4.49.0")),
        "4.50.0+peft0.15.2": seen(Outcome.FAILS, cell("4.50.0+peft0.15.2")),
        "4.50.0": seen(Outcome.PASSES, cell("4.50.0")),
    }
    assert [one.text for axis in (releases, versions) for one in ranges_along(axis, told)] == [
        "4.49.0, fixed in 4.50.0",
        "peft 0.15.2 on 4.50.0, fixed in peft 0.16.0 on 4.50.0",
    ]
