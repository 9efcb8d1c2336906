"""Histories over releases: runs, what was not run, and the same answers from the files."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

from swept import LINE, line, numbers, record

from repromatrix.runner import files
from repromatrix.runner.evidence.swept.changes import Kind
from repromatrix.runner.evidence.swept.probes import BUILD
from repromatrix.runner.evidence.swept.published import (
    PublishedFinding,
    RefusedType,
    read_findings,
    read_history,
    read_refused,
    texts,
)
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord, ProbeStatus
from repromatrix.sweep.findings import changes

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.evidence.swept.history import SweepHistory

HELD = (ProbeStatus.HOLDS, "")


def runs(known: SweepHistory, kind: str, probe: str) -> list[tuple[str, str, str]]:
    return [
        (run.first, run.last, run.record.status) for run in known.outcomes[ProbeKey(kind, probe)]
    ]


def static(status: ProbeStatus, message: str = "") -> list[ProbeRecord]:
    return [record("llama", "static", status, message)]


def test_neighbouring_releases_that_do_the_same_are_one_run() -> None:
    fails, holds = ProbeStatus.FAILS, ProbeStatus.HOLDS
    known = line(static(fails, "size 3"), static(fails, "size 4"), static(holds), static(fails))

    assert runs(known, "llama", "static") == [
        ("4.49.0", "4.50.0", "fails"),
        ("5.0.0", "5.0.0", "fails"),
    ]
    states = [known.record(ProbeKey("llama", "static"), name) for name in LINE]
    assert [state and (state.status, state.message) for state in states] == [
        (fails, "size 3"),
        (fails, "size 3"),
        HELD,
        (fails, ""),
    ]


def test_a_run_ends_where_a_failure_moves_or_says_something_else() -> None:
    moved = dataclasses.replace(static(ProbeStatus.FAILS, "size 3")[0], place="transformers.n:g")
    differs = ProbeStatus.DIFFERS
    lost = static(differs, "1 gradient is lost: b"), static(differs, "1 gradient is lost: c")
    known = line(static(ProbeStatus.FAILS, "size 4"), [moved], *lost)

    assert [one[:2] for one in runs(known, "llama", "static")] == [(name, name) for name in LINE]
    numbers_of = [
        [dataclasses.replace(static(differs, f"relative error {size}")[0], value=size)]
        for size in (0.5, 0.6, 0.1, 0.2)
    ]
    assert runs(line(*numbers_of), "llama", "static") == [
        ("4.49.0", "4.50.0", "differs"),
        ("4.51.0", "5.0.0", "differs"),
    ]


def test_a_release_on_which_an_architecture_was_not_run_ends_no_run() -> None:
    fails = ProbeStatus.FAILS
    known = line(static(fails), [record("gptj", "static", fails)], static(fails))

    assert runs(known, "llama", "static") == [("4.49.0", "4.51.0", "fails")]
    assert known.measured("llama") == ("4.49.0", "4.51.0")
    assert known.measured("gptj") == ("4.50.0",)
    assert known.record(ProbeKey("llama", "static"), "4.50.0") is None
    assert known.record(ProbeKey("gptj", "static"), "4.49.0") is None
    assert known.record(ProbeKey("bert", "static"), "4.49.0") is None


def test_where_an_architecture_is_not_built_its_probes_were_not_run() -> None:
    lost = [record("llama", BUILD, ProbeStatus.FAILS, "gone")]
    held = static(ProbeStatus.HOLDS)
    known = line(lost, [record("llama", BUILD, ProbeStatus.HOLDS), *held], lost)

    assert runs(known, "llama", BUILD) == [
        ("4.49.0", "4.49.0", "fails"),
        ("4.51.0", "4.51.0", "fails"),
    ]
    key = ProbeKey("llama", "static")
    assert [bool(known.record(key, name)) for name in LINE[:3]] == [False, True, False]
    assert known.found("4.51.0").keys() == {ProbeKey("llama", BUILD)}


def test_numbers_begin_a_new_run_where_they_change_or_weights_are_renamed() -> None:
    known = line(
        [numbers("llama", 1.0)],
        [numbers("llama", 1.000001)],
        [numbers("llama", 2.0)],
        [numbers("llama", 2.0, "0b")],
    )
    found = known.numbers[ProbeKey("llama", "outputs-fp32")]

    assert [(run.first, run.last) for run in found] == [
        ("4.49.0", "4.50.0"),
        ("4.51.0", "4.51.0"),
        ("5.0.0", "5.0.0"),
    ]
    told = [changes(known.found(a), known.found(b)) for a, b in itertools.pairwise(LINE)]
    assert [[change.kind for change in some] for some in told] == [[], [Kind.NUMBERS], []]


def test_the_files_give_back_what_was_written(tmp_path: Path) -> None:
    lost = [record("gptj", BUILD, ProbeStatus.FAILS, "gone")]
    differs = dataclasses.replace(
        record("llama", "cached", ProbeStatus.DIFFERS, "relative error 0.5"), value=0.5
    )
    known = line(
        [*static(ProbeStatus.FAILS, 'a "quoted", word'), differs, numbers("llama", 1.0)],
        [*static(ProbeStatus.SKIPPED, "no cache"), *lost, numbers("llama", 3.0)],
        lacking=("keep-fp32",),
    )
    refused = (RefusedType("bert", "4.50.0", "inputs", "a graph"),)
    told = (PublishedFinding("4.50.0", "4.49.0", "fixed-1", "fixed", "llama", "cached", "x", ""),)
    written = texts(tmp_path, known, refused, told)
    files.write_all(written)
    again = read_history(tmp_path)

    assert texts(tmp_path, again, read_refused(tmp_path), read_findings(tmp_path)) == written
    assert read_refused(tmp_path) == refused
    for name in LINE[:2]:
        assert again.found(name).keys() == known.found(name).keys()
        assert [*changes(again.found(name), known.found(name))] == []
    assert again.record(ProbeKey("llama", "keep-fp32"), "4.49.0") is None
    assert read_history(tmp_path / "nowhere").found("4.49.0") == {}


def test_a_probe_that_was_written_after_a_release_was_published_was_not_run_on_it(
    tmp_path: Path,
) -> None:
    files.write_all(texts(tmp_path, line(static(ProbeStatus.HOLDS)), (), ()))
    path = tmp_path / "sweep" / "releases.csv"
    cached = ProbeKey("llama", "cached")
    assert read_history(tmp_path).record(cached, "4.49.0") is not None

    path.write_text(path.read_text().replace(" cached ", " "))

    assert read_history(tmp_path).record(cached, "4.49.0") is None
