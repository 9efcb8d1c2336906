"""Publishing what several machines measured: each keeps what it ran on."""

from __future__ import annotations

import dataclasses
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import small_checkout
from factories import case_text, cell, provenance, seen
from rich.console import Console

from repromatrix.runner import project
from repromatrix.runner.cli.publish import publish_all
from repromatrix.runner.compare.snapshots import read_changes
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import commits, history, published
from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.evidence.history import (
    HistoryAnswer,
    HistoryKey,
    HistoryPoint,
    MainHistory,
)
from repromatrix.runner.evidence.published import read_publications
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import not_built
from repromatrix.runner.model.outcomes import Device, Outcome, Precision, Verdict
from repromatrix.runner.site import judged_grid

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.model.observation import Observation
    from repromatrix.runner.paths import Paths

RELEASES = ("4.49.0", "4.50.0")


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    found = small_checkout.checkout(tmp_path, RELEASES)
    (found.cases / "toy_breaks.py").write_text(case_text())
    return found


def rows(  # noqa: PLR0913 - one argument per fact that some test is about
    places: Paths,
    hardware: str,
    release: str,
    outcome: Outcome = Outcome.PASSES,
    *,
    device: Device = Device.CPU,
    name: str = "toy_breaks",
) -> list[Observation]:
    loaded = project.load(places)
    ran = provenance(loaded.cases[name], loaded.environments[release])
    ran = dataclasses.replace(ran, hardware=hardware, run=f"1 {hardware}")
    at = [cell(release, one, name=name, device=device) for one in Precision]
    return [seen(outcome, each, ran=ran) for each in at]


def test_machines_of_two_classes_are_two_publications(places: Paths) -> None:
    store = Store(places.store, print)
    store.put(*rows(places, "avx2", "4.49.0"))
    store.take(rows(places, "asimd", "4.50.0"))
    store.close()
    publish_all(places, Console(quiet=True))
    found = list(published.read(places.published))

    assert {(row.cell.environment, row.provenance.hardware) for row in found} == {
        ("4.49.0", "avx2"),
        ("4.50.0", "asimd"),
    }
    assert len({row.source for row in found}) == 2


def test_a_publication_keeps_its_name_when_all_its_cells_were_measured_again(
    places: Paths,
) -> None:
    names: list[str] = []
    for hardware in ("avx2", "avx512f", "amx"):
        store = Store(places.store, print)
        for release in RELEASES:
            store.put(*rows(places, hardware, release))
        store.close()
        publish_all(places, Console(quiet=True))
        names += read_publications(places.published)

    day = names[0]
    assert names == [day, f"{day}-b", f"{day}-c"]
    assert [one.publication for one in read_changes(places.published)] == names[:0:-1]


def test_what_machines_dispute_is_published_as_unstable_and_said(places: Paths) -> None:
    store = Store(places.store, print)
    for release in RELEASES:
        store.put(*rows(places, "avx2", release))
    store.take(rows(places, "asimd", "4.50.0", Outcome.FAILS))
    store.close()
    console = Console(record=True, stderr=True, width=200)
    publish_all(places, console)
    found = list(published.read(places.published))

    assert console.export_text().splitlines()[0] == (
        "3 cells disputed between machines; published as unstable."
    )
    assert {row.cell.environment for row in found if row.unstable} == {"4.50.0"}


def test_what_a_gpu_measured_is_published_by_whole_cases_and_the_rest_is_named(
    places: Paths,
) -> None:
    (places.cases / "toy_melts.py").write_text(case_text())
    store = Store(places.store, print)
    for release in RELEASES:
        for name in ("toy_breaks", "toy_melts"):
            store.put(*rows(places, "avx2", release, name=name))
    there = rows(places, "avx2; H200", "4.50.0", device=Device.CUDA)
    store.take(
        [*there, *rows(places, "avx2; H200", "4.50.0", device=Device.CUDA, name="toy_melts")[:2]]
    )
    store.close()
    console = Console(record=True, stderr=True, width=200)
    publish_all(places, console)
    every = list(published.read(places.published))
    found = [row for row in every if row.cell.device is Device.CUDA]

    assert {row.cell.environment for row in every if row not in found} == {*RELEASES}
    assert console.export_text().splitlines()[0] == (
        "toy_melts on 4.50.0 is not published: its cells on cuda are not whole."
    )
    assert {(row.cell.case, row.cell.environment) for row in found} == {("toy_breaks", "4.50.0")}
    assert {row.provenance.hardware for row in found} == {"avx2; H200"}


def test_what_a_gpu_measured_of_older_case_code_stays_published(places: Paths) -> None:
    store = Store(places.store, print)
    for device in Device:
        for release in RELEASES:
            store.put(*rows(places, str(device), release, device=device))
    publish_all(places, Console(quiet=True))
    store.close()
    places.store.unlink()
    (places.cases / "toy_breaks.py").write_text(case_text(code='"""Changed. It was a toy."""\n'))
    store = Store(places.store, print)
    for release in RELEASES:
        store.put(*rows(places, "cpu", release))
    store.close()
    publish_all(places, Console(quiet=True))
    digest = project.load(places).cases["toy_breaks"].digest
    found = published.read(places.published)

    assert {(row.cell.device, row.provenance.case_digest == digest) for row in found} == {
        (Device.CPU, True),
        (Device.CUDA, False),
    }


def unbuilt(places: Paths, release: str, device: Device) -> tuple[Observation, ...]:
    cells = [cell(release, one, device=device) for one in Precision]
    return not_built(cells, project.load(places).cases, "no such torch", "2 here")


@pytest.mark.parametrize("known", [True, False])
def test_what_could_not_be_built_is_not_published(places: Paths, *, known: bool) -> None:
    store = Store(places.store, print)
    for release in RELEASES:
        store.put(*rows(places, "avx2", release))
    store.put(*unbuilt(places, "main", Device.CPU))
    if known:
        publish_all(places, Console(quiet=True))
    for release in (*RELEASES, "main"):
        store.put(*unbuilt(places, release, Device.CUDA))
    store.close()
    publish_all(places, Console(quiet=True))
    found = Counter(
        (row.cell.device, row.cell.environment, row.outcome)
        for row in published.read(places.published)
    )

    assert found == {
        (Device.CPU, "4.49.0", Outcome.PASSES): 3,
        (Device.CPU, "4.50.0", Outcome.PASSES): 3,
    }
    assert [(one.new, one.gone) for one in read_changes(places.published)] == [((), ())] * known


def test_what_ran_out_of_memory_here_is_not_published_in_place_of_what_was_measured(
    places: Paths,
) -> None:
    store = Store(places.store, print)
    for release in RELEASES:
        store.put(*rows(places, "avx2", release))
    publish_all(places, Console(quiet=True))
    before = list(published.read(places.published))
    store.put(*rows(places, "small", "4.49.0", Outcome.OUT_OF_MEMORY))
    store.put(*rows(places, "avx2", "4.50.0"))
    store.close()
    publish_all(places, Console(quiet=True))
    after = list(published.read(places.published))

    assert [(row.cell, row.outcome) for row in after] == [(row.cell, row.outcome) for row in before]


def test_what_is_known_of_commits_is_published_and_stays(places: Paths) -> None:
    known = PinnedCommit(
        *("toy_breaks", "", "bf16", "cpu", "fix", "4.49.0", "4.50.0"),
        "transformers",
        commit="b" * 40,
    )
    gone = known._replace(case="no_case_any_more")
    with closing(Store(places.store, print)) as store:
        store.put(*(row for name in RELEASES for row in rows(places, "avx2", name)))
    for row in (known, gone):
        commits.keep(places, row)

    publish_all(places, Console(quiet=True))
    places.commits.unlink()
    publish_all(places, Console(quiet=True))

    assert commits.published_commits(places) == {known.key: known}


def test_commits_that_were_found_since_are_published_alone(places: Paths) -> None:
    found = PinnedCommit(
        *("toy_breaks", "", "bf16", "cpu", "fix", "4.49.0", "4.50.0"),
        "transformers",
        commit="b" * 40,
    )
    with closing(Store(places.store, print)) as store:
        store.put(*(row for name in RELEASES for row in rows(places, "avx2", name)))
    publish_all(places, Console(quiet=True))
    places.store.unlink()
    before = read_publications(places.published)
    commits.keep(places, found)

    publish_all(places, Console(quiet=True))

    assert commits.published_commits(places) == {found.key: found}
    assert read_publications(places.published) == before
    with pytest.raises(RunnerError, match="no results that are not published yet"):
        publish_all(places, Console(quiet=True))


def test_what_was_measured_along_main_is_published_alone_while_its_case_stands(
    places: Paths,
) -> None:
    toy = project.load(places).cases["toy_breaks"]
    point = HistoryPoint("2025-03-01T12:00:00Z", "a" * 40, "4.50.0.dev0")
    answers = {point.commit: HistoryAnswer(fails=False, reason="passes")}
    keys = [HistoryKey(toy.name, digest, Precision.BF16, Device.CPU) for digest in (toy.digest, "")]
    history.keep(places, MainHistory(points=(point,), answers=dict.fromkeys(keys, answers)))
    with closing(Store(places.store, print)) as store:
        store.put(*(row for name in RELEASES for row in rows(places, "avx2", name)))

    publish_all(places, Console(quiet=True))
    publish_all(places, Console(quiet=True))

    published_points = history.published_history(places)
    assert published_points == MainHistory(points=(point,), answers={keys[0]: answers})


LINE = ("4.50.0", "4.50.1", "4.50.2", "4.50.3")
SOFTLY = '[tool.repromatrix.workarounds]\nsoftly = "Break softly."\n'


def test_what_is_not_due_is_no_gap_no_row_and_no_pass(tmp_path: Path) -> None:
    places = small_checkout.checkout(tmp_path, LINE)
    (places.cases / "toy_breaks.py").write_text(case_text(SOFTLY))
    asked = [(name, "") for name in LINE] + [(name, "softly") for name in ("4.50.0", "4.50.3")]
    with closing(Store(places.store, print)) as store:
        for name, workaround in asked:
            for row in rows(places, "avx2", name):
                at = row.cell._replace(workaround=workaround)
                store.put(dataclasses.replace(row, cell=at))
    publish_all(places, Console(quiet=True))
    loaded, found = project.load(places), list(published.read(places.published))
    grid = judged_grid(loaded, found)[1]
    blank = {
        judged.seen.cell: judged
        for judged in grid
        if not judged.seen.outcome.was_run and judged.seen.cell.environment in LINE
    }

    assert sorted({(row.cell.environment, row.cell.workaround) for row in found}) == sorted(asked)
    assert {(one.environment, one.workaround) for one in blank} == {
        ("4.50.1", "softly"),
        ("4.50.2", "softly"),
    }
    assert {
        (each.seen.outcome, each.verdict, each.seen.reading.fails) for each in blank.values()
    } == {(Outcome.NOT_DUE, Verdict.UNPROVEN, None)}
    with closing(Store(places.store, print)) as store:
        store.put(*rows(places, "avx2", "4.50.1", Outcome.FAILS))  # now the workaround is due
    with pytest.raises(RunnerError) as caught:
        publish_all(places, Console(quiet=True))
    assert "without a current result" in str(caught.value)
