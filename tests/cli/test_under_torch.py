"""Cells under another torch: selected at the changes of a case, kept apart, printed by name."""

from __future__ import annotations

import dataclasses
import io
from typing import TYPE_CHECKING

import pytest
import small_checkout
from factories import BREAKS, case_text, cell, provenance, seen
from rich.console import Console
from small_checkout import Toy

from repromatrix.runner import project, site
from repromatrix.runner.cli.check import examine
from repromatrix.runner.cli.matrix import MatrixOptions, measure
from repromatrix.runner.cli.publish import publish_all
from repromatrix.runner.cli.results import ResultsOptions, print_cells
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import answers, commits
from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.model.outcomes import Outcome, Precision
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from pathlib import Path

NAME = "4.50.0+torch2.6.0"


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    found = small_checkout.checkout(tmp_path)
    text = (ROOT / "environments" / "locks" / "torch2.6.0.txt").read_text()
    (found.locks / "torch2.6.0.txt").write_text(text)
    Toy(found, case_text()).measured("+--+++")
    return found


def measured(places: Paths, torch: str = "2.6.0+cu124", outcome: Outcome = Outcome.PASSES) -> None:
    """Store what the case does in bf16 under another torch, without a run."""
    loaded = project.load(places, also=[NAME])
    ran = provenance(loaded.cases["toy_breaks"], loaded.environments[NAME])
    ran = dataclasses.replace(ran, torch_build=torch)
    store = Store(places.store, print)
    store.put(seen(outcome, cell(NAME, Precision.BF16), ran=ran))
    store.close()


def test_a_run_is_about_the_releases_at_the_changes_and_both_ends(places: Paths) -> None:
    console = Console(record=True, stderr=True, width=200)
    measure(places, MatrixOptions(torch="2.6.0", dry_run=True), console)

    lines = [line.split() for line in console.export_text().splitlines()]
    assert {line[0] for line in lines if "+torch" in line[0]} == {
        f"{name}+torch2.6.0" for name in ("4.49.0", "4.50.0", "4.50.1", "4.50.2", "4.51.0")
    }


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (MatrixOptions(torch="2.5.1"), "2.6.0, 2.8.0 or 2.10.0"),
        (MatrixOptions(torch="2.6.0", shard="1/2"), "--torch"),
    ],
)
def test_what_is_not_declared_and_what_excludes_it_is_refused(
    places: Paths, options: MatrixOptions, what: str
) -> None:
    with pytest.raises(RunnerError, match=what):
        measure(places, options, Console(quiet=True))


def test_what_was_measured_is_no_part_of_the_grid(places: Paths) -> None:
    loaded = project.load(places)
    before = site.judged_grid(loaded, answers.both(places, print))
    measured(places)
    after = site.judged_grid(loaded, answers.both(places, print))

    assert after[0].names == before[0].names
    assert len(after[1]) == len(before[1])


def test_it_is_published_apart_and_printed_where_it_is_named(
    places: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_all(places, Console(quiet=True))
    places.store.unlink()
    before = {path: path.read_bytes() for path in places.published.rglob("*.*")}
    measured(places)
    publish_all(places, Console(quiet=True))
    [row] = answers.under_torches(places)

    assert before == {path: path.read_bytes() for path in before}
    assert (row.cell, row.provenance.torch_build) == (cell(NAME), "2.6.0+cu124")
    capsys.readouterr()
    print_cells(places, ResultsOptions(release=[NAME]), Console(quiet=True))
    print_cells(places, ResultsOptions(release=["4.51.0"]), Console(quiet=True))
    lines = capsys.readouterr().out.splitlines()
    told = [line.split(",") for line in lines if "torch2.6.0" in line]
    assert [(fields[2], fields[5], fields[12]) for fields in told] == [
        (NAME, "passes", "2.6.0+cu124")
    ]


def test_it_stays_where_only_a_commit_was_found_since(places: Paths) -> None:
    publish_all(places, Console(quiet=True))
    measured(places)
    publish_all(places, Console(quiet=True))
    places.store.unlink()
    before = {path: path.read_bytes() for path in places.torches.rglob("*.*")}
    found = PinnedCommit(
        *("toy_breaks", "", "bf16", "cpu", "break", "4.49.0", "4.50.0"),
        "transformers",
        commit="b" * 40,
    )
    commits.keep(places, found)
    publish_all(places, Console(quiet=True))

    assert commits.published_commits(places) == {found.key: found}
    assert {path: path.read_bytes() for path in places.torches.rglob("*.*")} == before


def test_check_counts_what_is_unexpected_there_and_names_its_case(places: Paths) -> None:
    measured(places, outcome=Outcome.FAILS)
    publish_all(places, Console(quiet=True))
    console = Console(record=True, width=300, quiet=False, file=io.StringIO())
    examine(places, console)
    told = console.export_text()

    assert "1 cell under torch 2.6.0: 1 unexpected.\n" in told
    assert (
        "cases/toy_breaks.py: note: 1 cell under torch 2.6.0 on 4.50.0 unexpected:"
        " an entry of `fails` may name torch.\n"
    ) in told


def test_two_entries_that_hold_in_a_cell_under_another_torch_are_refused(places: Paths) -> None:
    measured(places)
    publish_all(places, Console(quiet=True))
    under = BREAKS.replace('when = ["', 'when = ["torch<2.8", "')
    (places.cases / "toy_breaks.py").write_text(case_text(BREAKS + under))

    with pytest.raises(RunnerError, match=r"both apply to bf16 on 4.50.0\+torch2.6.0"):
        examine(places, Console(quiet=True))
