"""One trait each: what a case may do to its runner, and what the runner makes of it."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fakes import RELEASE, Drive, Ran, corpus, headline, is_alive, load

from repromatrix.runner.judging.lint import scrutinise
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Verdict
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from repromatrix.runner.project import Project

pytestmark = pytest.mark.builds

YES, NO, EMPTY = Exercised.YES, Exercised.NO, Exercised.EMPTY
PASSES, FAILS, CRASHES, TIMES_OUT = (
    Outcome.PASSES,
    Outcome.FAILS,
    Outcome.CRASHES,
    Outcome.TIMES_OUT,
)
AS_EXPECTED, UNPROVEN = Verdict.AS_EXPECTED, Verdict.UNPROVEN
OUT_OF_MEMORY = (Outcome.OUT_OF_MEMORY, "", EMPTY, UNPROVEN)
PASSED = (PASSES, "", EMPTY, AS_EXPECTED)
COMPUTED = (PASSES, "", YES, AS_EXPECTED)

WITHOUT_REPORT = "MissingReport: the process ended with exit code {} and without a report"
NO_MODULE = "ModuleNotFoundError: No module named {!r}"
FULL = "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
CUBLAS = "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"
MIXED = "RuntimeError: expected m1 and m2 to have the same dtype, but got: c10::BFloat16 != double"
NO_NAME = (
    "ImportError: cannot import name 'NoSuchModelForCausalLM' from 'transformers'"
    " (site-packages/transformers/__init__.py)"
)

EXPECTED = {
    "changes_signals": PASSED,
    "becomes_daemon": (FAILS, WITHOUT_REPORT.format(0), EMPTY, AS_EXPECTED),
    "changes_surroundings": PASSED,
    "changes_torch": COMPUTED,
    "closes_descriptors": PASSED,
    "closes_descriptors + all": (FAILS, WITHOUT_REPORT.format(1), EMPTY, AS_EXPECTED),
    "computes_in_thread": COMPUTED,
    "computes_in_thread + pool": COMPUTED,
    "declines": (Outcome.DECLINES, "", EMPTY, Verdict.NOT_APPLICABLE),
    "dies_unusually": (CRASHES, "signal 35: died by signal 35", EMPTY, AS_EXPECTED),
    "eats_memory": OUT_OF_MEMORY,
    "eats_memory + at-once": OUT_OF_MEMORY,
    "eats_memory + below": OUT_OF_MEMORY,
    "eats_memory + let-go": OUT_OF_MEMORY,
    "exits_in_thread": PASSED,
    "exits_in_thread + hard": (FAILS, WITHOUT_REPORT.format(3), EMPTY, AS_EXPECTED),
    "exits_with_text": (FAILS, "SystemExit: words instead of a number", EMPTY, AS_EXPECTED),
    "exits_without_report": (FAILS, WITHOUT_REPORT.format(0), EMPTY, AS_EXPECTED),
    "fails_as_described": (FAILS, MIXED, YES, AS_EXPECTED),
    "fails_compiled": (
        FAILS,
        "BackendCompilerFailed: backend='refusing' raised:",
        YES,
        AS_EXPECTED,
    ),
    "fails_compiled + eager": COMPUTED,
    "fails_differently": (FAILS, "KeyError: 'absent'", EMPTY, Verdict.CHANGED),
    "fails_importing": (FAILS, NO_NAME, EMPTY, AS_EXPECTED),
    "fails_unexpectedly": (
        FAILS,
        "AssertionError: the share is small",
        EMPTY,
        Verdict.REGRESSED,
    ),
    "fills_gpu": (Outcome.OUT_OF_MEMORY, FULL, EMPTY, UNPROVEN),
    "fills_gpu + cublas": (Outcome.OUT_OF_MEMORY, CUBLAS, EMPTY, UNPROVEN),
    "floods_stdout": PASSED,
    "forks": PASSED,
    "hangs": (TIMES_OUT, "", EMPTY, AS_EXPECTED),
    "ignores_sigterm": (TIMES_OUT, "", EMPTY, AS_EXPECTED),
    "imports_neighbour": (FAILS, NO_MODULE.format("fake_passes"), EMPTY, AS_EXPECTED),
    "imports_runner": (FAILS, NO_MODULE.format("repromatrix"), EMPTY, AS_EXPECTED),
    "kills_group": (CRASHES, "SIGKILL: died by SIGKILL", EMPTY, AS_EXPECTED),
    "kills_worker": (CRASHES, "ZygoteLost: it ended with signal SIGKILL", EMPTY, AS_EXPECTED),
    "leaves_grandchild": PASSED,
    "leaves_main_thread": (TIMES_OUT, "", EMPTY, AS_EXPECTED),
    "leaves_many_files": PASSED,
    "leaves_many_files + deep": PASSED,
    "leaves_threads": PASSED,
    "leaves_threads + not-daemon": PASSED,
    "litters_folder": PASSED,
    "litters_folder + again": PASSED,
    "litters_folder + once-more": PASSED,
    "litters_home": PASSED,
    "litters_home + again": PASSED,
    "long_message": (FAILS, "ValueError: " + "x" * 20_000, EMPTY, AS_EXPECTED),
    "looks_around": COMPUTED,
    "measures_nonfinite": (FAILS, "AssertionError: not finite", EMPTY, AS_EXPECTED),
    "message_surrogate": (FAILS, r"LookupError: absent-\udcff", EMPTY, AS_EXPECTED),
    "nameless_exception": (
        FAILS,
        "HostileError: <its message cannot be read: HostileError>",
        EMPTY,
        AS_EXPECTED,
    ),
    "only_casts": (PASSES, "", NO, UNPROVEN),
    "passes": COMPUTED,
    "passes_unexpectedly": (PASSES, "", EMPTY, Verdict.FIXED),
    "prints_binary": PASSED,
    "prints_buffered": PASSED,
    "prints_late": PASSED,
    "reads_stdin": PASSED,
    "recurses": (
        FAILS,
        "RecursionError: maximum recursion depth exceeded",
        EMPTY,
        AS_EXPECTED,
    ),
    "recurses + in-c": (CRASHES, "SIGSEGV: died by SIGSEGV", EMPTY, AS_EXPECTED),
    "recurses + without-end": OUT_OF_MEMORY,
    "replaces_methods": PASSED,
    "replaces_methods + fails": (FAILS, "KeyError: 'mine'", EMPTY, AS_EXPECTED),
    "replaces_stdout": PASSED,
    "replaces_stdout + stuck": (TIMES_OUT, "", EMPTY, AS_EXPECTED),
    "segfaults": (CRASHES, "SIGSEGV: died by SIGSEGV", EMPTY, AS_EXPECTED),
    "sets_environment": PASSED,
    "stops_worker": (CRASHES, "ZygoteLost: it was stopped", EMPTY, AS_EXPECTED),
    "varies[broken]": (FAILS, "AssertionError: broken with seed 0", EMPTY, AS_EXPECTED),
    "varies[sound]": PASSED,
    "writes_everywhere": (FAILS, WITHOUT_REPORT.format(0), EMPTY, AS_EXPECTED),
    "writes_everywhere + held": PASSED,
    "writes_report": PASSED,
}

FEW = ("exits_with_text", "fails_as_described", "hangs", "leaves_grandchild", "segfaults")
"""What fresh processes are asked for by default; they cost seconds each."""
WAYS = ("forked", pytest.param("fresh", marks=pytest.mark.whole))
ENDING = frozenset(
    f"fake_{name}" for name in ("kills_worker", "prints_late", "reads_stdin", "stops_worker")
)
"""Those that end their worker, and neighbours of theirs."""
UNEXPECTED = {"fails_differently", "fails_unexpectedly", "passes_unexpectedly"}


@pytest.fixture(scope="module")
def loaded() -> Project:
    return load()


@pytest.fixture(scope="module")
def forked(loaded: Project, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Drive(loaded=loaded, folder=tmp_path_factory.mktemp("forked"), apart=ENDING).run()


@pytest.fixture(scope="module")
def fresh(loaded: Project, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Drive(loaded=loaded, folder=tmp_path_factory.mktemp("fresh"), fork=False).run()


def test_every_fake_does_what_its_name_says_and_is_judged_so(forked: Ran) -> None:
    expected = EXPECTED
    actual = {
        name: (one.seen.outcome, headline(one), one.seen.exercised, one.verdict)
        for name, one in forked.found.items()
    }

    assert expected == actual


def test_a_few_in_fresh_processes_do_the_same_and_leave_nothing(
    forked: Ran, tmp_path: Path
) -> None:
    few = load([corpus() / f"fake_{name}.py" for name in FEW])
    fresh = Drive(loaded=few, folder=tmp_path, fork=False).run()
    expected = {name: what for name, what in forked.outcomes().items() if name in fresh.found}
    left = fresh.folders_left, fresh.processes_left, fresh.children_left

    assert fresh.outcomes() == expected
    assert {name.partition(" ")[0] for name in expected} == {*FEW}
    assert left == ([], [], [])
    assert not is_alive(int(fresh.seen("leaves_grandchild").measured["pid"]))


@pytest.mark.whole
def test_fresh_processes_give_the_outcomes_of_forked_ones(forked: Ran, fresh: Ran) -> None:

    assert {name: one.seen.exercised for name, one in fresh.found.items()} == {
        name: one.seen.exercised for name, one in forked.found.items()
    }
    assert forked.outcomes() == fresh.outcomes()


def test_the_witness_changes_no_outcome(
    loaded: Project, forked: Ran, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with_torch = {name: case for name, case in loaded.cases.items() if case.head.dependencies}
    unwatched = dataclasses.replace(loaded, cases=with_torch)
    folder = tmp_path_factory.mktemp("unwatched")
    ran = Drive(loaded=unwatched, folder=folder, witness=False).run()

    assert ran.outcomes() == {
        name: what for name, what in forked.outcomes().items() if name in ran.found
    }
    assert {one.seen.exercised for one in ran.found.values()} == {EMPTY}
    assert "fails_compiled" in ran.found


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_left_of_a_run_but_its_rows_with_what_was_printed_and_which_limit_was_hit(
    way: str, request: pytest.FixtureRequest
) -> None:
    ran: Ran = request.getfixturevalue(way)
    hungry = {name for name, what in EXPECTED.items() if what == OUT_OF_MEMORY}

    assert (ran.folders_left, ran.processes_left, ran.children_left) == ([], [], [])
    assert not is_alive(int(ran.seen("leaves_grandchild").measured["pid"]))
    output = ran.seen("prints_buffered").output
    assert all(part in output for part in ("printed", " and complained"))
    assert {name for name, one in ran.found.items() if one.seen.hit_limit} == hungry


MEASURED = {
    "litters_folder": {"found": 0.0},
    "litters_folder + again": {"found": 0.0},
    "litters_folder + once-more": {"found": 0.0},
    "leaves_threads": {},
    "leaves_threads + not-daemon": {"waited": 1.0},
    "measures_nonfinite": {
        "count": 3.0,
        "inf": math.inf,
        "minus": -math.inf,
        "nan": math.nan,
        "share": 0.5,
    },
}
"""Each cell begins in an empty folder, threads are waited for, and numbers may be infinite."""


def test_what_a_case_measured_is_kept_whatever_its_end(forked: Ran) -> None:
    found = {name: dict(sorted(forked.seen(name).measured.items())) for name in MEASURED}

    assert repr(found) == repr(MEASURED)
    assert forked.seen("prints_binary").output == bytes(range(256)).decode(
        "utf-8", "backslashreplace"
    )
    assert forked.seen("only_casts").computed == {"float32": 2}
    assert forked.seen("passes").computed == {"bfloat16": 2}


def test_a_flood_is_kept_by_its_first_and_last_words(forked: Ran) -> None:
    output = forked.seen("floods_stdout").output
    parts = re.fullmatch(r"(.*)\n… (\d+) bytes left out …\n(.*)", output, re.DOTALL)
    assert parts
    begin, dropped, end = parts.groups()

    assert len(begin) + int(dropped) + len(end) == len("the first words\n") + (1 << 30) + len(
        "the last words\n"
    )
    assert begin.startswith("the first words\na flood\n")
    assert end.endswith("a flood\nthe last words\n")
    assert len(output) < 64 << 10


def test_only_what_is_unexpected_or_hits_our_limit_is_repeated(forked: Ran) -> None:
    hungry = {name for name, what in EXPECTED.items() if what == OUT_OF_MEMORY}

    assert {
        name for name, one in forked.found.items() if one.seen.repeats == 3
    } == UNEXPECTED | hungry
    assert not any(one.seen.unstable for one in forked.found.values())


def test_a_row_names_the_files_that_were_imported_without_their_place(forked: Ran) -> None:
    expected = {"torch": "site-packages/torch/__init__.py"}
    actual = forked.seen("passes").provenance.imported

    assert expected.items() <= actual.items()
    assert not forked.seen("segfaults").provenance.imported


def test_every_fake_passes_check(loaded: Project) -> None:
    precisions = loaded.matrix.precisions
    faults = [
        fault
        for case in loaded.cases.values()
        for fault in scrutinise(case, loaded.environments, precisions, Device)
    ]

    assert faults == []


@pytest.mark.parametrize("fork", [True, False], ids=["forked", "fresh"])
def test_what_runs_is_the_case_that_was_read_whatever_becomes_of_its_file(
    tmp_path: Path,
    fork: bool,  # noqa: FBT001
) -> None:
    names = ("fake_fails_differently", "fake_passes")
    files = [Path(shutil.copy(corpus() / f"{name}.py", tmp_path)) for name in names]
    read = load(files)
    files[0].write_text(files[0].read_text().replace("absent", "edited"))
    files[1].unlink()
    ran = Drive(loaded=read, folder=tmp_path, fork=fork).run()

    assert ran.outcomes() == {
        "fails_differently": (FAILS, "KeyError: 'absent'"),
        "passes": (PASSES, ""),
    }
    failure = ran.seen("fails_differently").failed
    assert failure is not None
    assert '"absent"' in failure.traceback


def test_a_file_of_ones_own_runs_through_the_program_and_its_unexpected_result_is_its_exit_code(
    tmp_path: Path,
) -> None:
    fakes = [corpus() / "fake_passes.py", corpus() / "fake_fails_differently.py"]
    options = ["--release", RELEASE, "--precision", "bf16"]
    chosen = {"REPROMATRIX_STORE": tmp_path / "s.sqlite", "REPROMATRIX_SITE": tmp_path / "site"}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "repromatrix",
            "matrix",
            *options,
            *(f"--case={path}" for path in fakes),
        ],
        cwd=ROOT,
        env={**os.environ, **{name: str(value) for name, value in chosen.items()}},
        capture_output=True,
        text=True,
        check=False,
    )
    unexpected = f"changed: fake_fails_differently bf16 on {RELEASE}: fails: KeyError: 'absent'"

    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "2 cells measured" in done.stderr
    assert unexpected in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own-s.sqlite", "own-site"]
