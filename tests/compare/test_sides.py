"""`diff`: what has to be run for it, what is refused, and a real checkout that heals and breaks."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from factories import BREAKS, case, cell, environment, provenance, seen
from rich.console import Console

from repromatrix.runner import project
from repromatrix.runner.cli.diff import DiffOptions, compare_sides
from repromatrix.runner.cli.progress import ProgressDisplay
from repromatrix.runner.compare.checkout import CheckoutRuns
from repromatrix.runner.compare.diff import without_environment
from repromatrix.runner.compare.sides import DiffRequest, _foreign
from repromatrix.runner.environments import building
from repromatrix.runner.environments.commits import Declaration, Home
from repromatrix.runner.environments.development import read_checkout
from repromatrix.runner.errors import ExitCode, Interrupted, RunnerError
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.model.outcomes import Device, Outcome
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.model.matrix import Matrix
    from repromatrix.runner.model.observation import Observation
    from repromatrix.runner.model.outcomes import Verdict

QUIET = Console(quiet=True)
KEPT = "llama_static_cache_autocast"


def compared(before: str, after: str | Path, **changed: Any) -> ExitCode:  # noqa: ANN401
    options = DiffOptions(before=before, after=str(after), **{"format": "json", **changed})
    return compare_sides(Paths(), options, QUIET)


def differing(told: str) -> dict[tuple[str, str, str], tuple[str, str, str]]:
    """Return what became of the cells that are not the same, with both errors."""
    return {
        (one["case"], one["workaround"], one["precision"]): (
            one["change"],
            one["before"]["error"] or one["before"]["outcome"],
            one["after"]["error"] or one["after"]["outcome"],
        )
        for one in json.loads(told)["cells"]
        if one["change"] != "same"
    }


# Two environments -------------------------------------------------------------------------------

FLOAT = "AttributeError: 'HybridCache' object has no attribute 'float'"


def test_two_releases_are_compared_without_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    code = compared("4.50.3", "4.51.0", case=["paligemma2*"])
    told = capsys.readouterr().out

    assert code is ExitCode.UNEXPECTED
    assert differing(told) == {
        ("paligemma2_trainer_eval", variant, precision): ("fixed", FLOAT, "passes")
        for variant in ("", "outer-cache-off", "text-cache-off")
        for precision in ("bf16", "fp16")
    }
    assert [line.endswith(", 0 run.") for line in json.loads(told)["headline"][-2:]] == [True, True]


def test_a_pair_is_asked_about_its_own_cases_alone(capsys: pytest.CaptureFixture[str]) -> None:
    compared("4.53.3", "4.53.3+peft0.15.2")
    told = json.loads(capsys.readouterr().out)
    held = {one[side]["environment"] for one in told["cells"] for side in ("before", "after")}

    assert held == {"4.53.3", "4.53.3+peft0.15.2"}
    assert (told["counts"]["new"], told["counts"]["gone"]) == (0, 0)


# What is run ------------------------------------------------------------------------------------

TOY = case(BREAKS)
BASE = environment("4.50.0")


def _asked(matrix: Matrix) -> DiffRequest:
    loaded = Project(
        paths=Paths(),
        matrix=matrix,
        locks={},
        environments={BASE.name: BASE},
        cases={TOY.name: TOY},
    )
    terms = Terms(
        run="now", limits=Limits(seconds=1, memory=1), device=Device.CPU, jobs=1, fork=True
    )
    return DiffRequest(
        project=loaded,
        selection=select(SelectionRequest(), loaded.cases, loaded.names),
        terms=terms,
        rerun=False,
        watched=lambda: ProgressDisplay(QUIET),
    )


def _row(release: str, outcome: Outcome, hardware: str, run: str = "earlier") -> Observation:
    ran = dataclasses.replace(provenance(TOY, BASE), hardware=hardware, run=run)
    return seen(outcome, cell(release), ran=ran)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            _row("4.50.0", Outcome.PASSES, "avx512"),
            _row("4.50.0@abc", Outcome.FAILS, "avx2", "now"),
            [cell("4.50.0")],
        ),
        (
            _row("4.50.0", Outcome.PASSES, "avx2"),
            _row("4.50.0@abc", Outcome.FAILS, "avx2", "now"),
            [],
        ),
        (
            _row("4.50.0", Outcome.FAILS, "avx512"),
            _row("4.50.0@abc", Outcome.FAILS, "avx2", "now"),
            [],
        ),
        (
            _row("4.50.0", Outcome.PASSES, "avx512", "now"),
            _row("4.50.0@abc", Outcome.FAILS, "avx2", "now"),
            [],
        ),
    ],
)
def test_a_difference_between_two_machines_is_measured_again_on_this_one(
    before: Observation, after: Observation, expected: list[object], matrix: Matrix
) -> None:
    one, other = ({without_environment(row.cell): row} for row in (before, after))

    assert list(_foreign(_asked(matrix), one, other)) == expected


def test_a_checkout_that_declares_more_than_the_release_has_gets_what_it_declares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _checkout(tmp_path / "peft")
    (folder / "setup.py").write_text('setup(install_requires=["tokenizers>=99"])\n')
    loaded = project.load(Paths(), [])

    def described(_: Home, declared: Declaration, extras: object, on: str) -> object:
        assert (declared.requirements, extras, on) == (("tokenizers>=99",), (), "4.51.3")
        release = loaded.environments[on]
        pins = {**release.pins, "tokenizers": "99.1"}
        return dataclasses.replace(release, name="4.51.3~0", pins=pins), None

    monkeypatch.setattr(Home, "described", described)
    asked = dataclasses.replace(_asked(loaded.matrix), project=loaded)
    runs = CheckoutRuns(asked, read_checkout(folder), None)  # type: ignore[arg-type]

    assert runs.setting("4.51.3") == (
        "in an environment of what it declares that it needs, on 4.51.3:"
        " tokenizers 99.1, not 0.21.1"
    )
    (folder / "setup.py").write_text('setup(install_requires=["tokenizers"])\n')
    plain = CheckoutRuns(asked, read_checkout(folder), None)  # type: ignore[arg-type]
    assert plain.setting("4.51.3") == "in the environment of 4.51.3"


def _checkout(folder: Path) -> Path:
    (folder / "peft").mkdir(parents=True)
    (folder / "peft" / "__init__.py").write_text("__version__ = '0.15.2'\n")
    return folder


def test_nothing_is_stored_of_a_checkout_that_is_edited_while_its_cells_run(
    matrix: Matrix, tmp_path: Path
) -> None:
    folder = _checkout(tmp_path / "clone")
    store = Store(tmp_path / "trials.sqlite", pytest.fail)
    bench = CheckoutRuns(_asked(matrix), read_checkout(folder), store)
    bench.waiting.append(_row("4.50.0@abc", Outcome.PASSES, "avx2"))
    bench.store_waiting()
    (folder / "peft" / "__init__.py").write_text("__version__ = '0.15.3'\n")
    bench.waiting.append(_row("4.50.0@abc", Outcome.FAILS, "avx2"))
    with pytest.raises(RunnerError) as caught:
        bench.store_waiting()
    kept = [row.outcome for row in store.rows()]
    store.close()

    assert "the checkout changed while its cases were running" in str(caught.value)
    assert kept == [Outcome.PASSES]


@pytest.mark.parametrize(("repeats", "due"), [(1, 1), (3, 0)])
def test_a_difference_that_was_not_repeated_before_an_interruption_is_run_again(
    repeats: int, due: int, matrix: Matrix, tmp_path: Path
) -> None:
    asked = dataclasses.replace(
        _asked(matrix),
        selection=select(SelectionRequest(precision=["bf16"]), {TOY.name: TOY}, [BASE.name]),
    )
    store = Store(tmp_path / "trials.sqlite", pytest.fail)
    bench = CheckoutRuns(asked, read_checkout(_checkout(tmp_path / "clone")), store)
    within = bench.checkout.within(BASE)
    row = seen(Outcome.FAILS, cell(within.name), ran=provenance(TOY, within))
    store.put(dataclasses.replace(row, repeats=repeats))
    base = seen(Outcome.PASSES, cell(BASE.name))
    differing, same = ({without_environment(row.cell): one} for one in (base, row))
    found = [bench.trials(BASE.name, one)[0].due for one in (differing, same)]
    store.close()

    assert found == [(cell(within.name),) * due, ()]


# A real checkout --------------------------------------------------------------------------------

MAMBA = ("models/mamba2/modeling_mamba2.py", "class Mamba2Cache:\n")
CAST = "value_states = value_states.to(v_out.dtype)\n"
STATIC = ("cache_utils.py", f"{CAST}\n        if cache_position is None:")
HEAL = "class Mamba2Cache:\n    def float(self):\n        return self\n\n"
BREAK = "\n        if cache_position is None:"
INDEX_COPY = (
    "RuntimeError: index_copy_(): self and source expected to have the same dtype, but got (self)"
    " Float and (source) BFloat16"
)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Make a repository from the installed sources of a release, on a branch of its own."""
    loaded = project.load(Paths(), [])
    built = building.build(Paths(), project.recipe(loaded, "4.50.3"))
    (python,) = built.folder.resolve().glob("lib/python3.*")
    folder = tmp_path / "my clone"
    installed, ours = python / "site-packages" / "transformers", folder / "src" / "transformers"
    shutil.copytree(installed, ours, ignore=shutil.ignore_patterns("__pycache__"))
    own = ["-c", "user.name=someone", "-c", "user.email=someone@example.org", "-c", "gc.auto=0"]
    for asked in (["init", "-q", "-b", "mine"], ["add", "-A"], ["commit", "-qm", "Release"]):
        command = ["git", "-C", str(folder), *own, *asked]
        subprocess.run(command, check=True)
    return folder


def planted(clone: Path, place: tuple[str, str], replacement: str) -> None:
    file, text = clone / "src" / "transformers" / place[0], place[1]
    source = file.read_text()
    assert source.count(text) == 1
    file.write_text(source.replace(text, replacement))


def listed(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.builds
def test_a_checkout_that_heals_one_case_and_breaks_another_is_told_so_and_left_as_it_was(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(clone, MAMBA, HEAL)
    planted(clone, STATIC, BREAK)
    before = listed(clone)
    asked = {"case": [KEPT, "mistral_static_sliding_autocast", "mamba2*"], "precision": ["bf16"]}
    first_code, first = compared("4.50.3", clone, **asked), capsys.readouterr().out
    again_code, again = compared("4.50.3", clone, **asked), capsys.readouterr().out

    assert differing(first) == {
        (KEPT, "", "bf16"): ("broke", "passes", INDEX_COPY),
        ("mistral_static_sliding_autocast", "", "bf16"): ("broke", "passes", INDEX_COPY),
        ("mamba2_trainer_eval", "", "bf16"): (
            "fixed",
            "AttributeError: 'Mamba2Cache' object has no attribute 'float'",
            "passes",
        ),
    }
    assert (first_code, again_code) == (ExitCode.UNEXPECTED, ExitCode.UNEXPECTED)
    assert differing(again) == differing(first)
    # Every new case of the area adds a cell: the number is the headline's own.
    said = json.loads(first)["headline"][-1]
    numbers = re.findall(r"^Second side: (\d+) cells", said)
    assert [said.endswith(f"; 0 known, {number} run.") for number in numbers] == [True]
    assert json.loads(again)["headline"][-1].endswith(", 0 run.")
    assert listed(clone) == before


@pytest.mark.whole
@pytest.mark.builds
def test_what_was_measured_before_an_interruption_is_kept_and_none_of_it_for_an_edited_checkout(
    clone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"case": [KEPT], "precision": ["bf16", "fp32"]}
    plain, heard = ProgressDisplay.measured, []

    def interrupts(display: ProgressDisplay, seen: Observation, verdict: Verdict) -> None:
        plain(display, seen, verdict)
        heard.append(seen.cell)
        if len(heard) == 1:
            raise Interrupted

    monkeypatch.setattr(ProgressDisplay, "measured", interrupts)
    with pytest.raises(Interrupted):
        compared("4.50.3", clone, **asked)
    kept = len(set(heard))
    code = compared("4.50.3", clone, **asked)
    told = capsys.readouterr().out
    headline = json.loads(told)["headline"][-1]

    assert (code, differing(told)) == (ExitCode.AS_EXPECTED, {})
    assert headline.startswith("Second side: ")
    assert f"; {kept} known (" in headline
    assert headline.endswith(f", {6 - kept} run.")

    planted(clone, STATIC, BREAK)
    edited = compared("4.50.3", clone, case=[KEPT], precision=["bf16"])

    assert edited is ExitCode.UNEXPECTED
    assert set(differing(capsys.readouterr().out)) == {(KEPT, "", "bf16")}


@pytest.mark.builds
def test_a_checkout_that_needs_another_companion_is_one_fault(clone: Path) -> None:
    init = clone / "src" / "transformers" / "__init__.py"
    init.write_text(f"{init.read_text()}\nraise ImportError('huggingface-hub>=9 is needed')\n")
    with pytest.raises(RunnerError) as caught:
        compared("4.50.3", clone, case=[KEPT], precision=["bf16"])

    assert caught.value.code is ExitCode.UNBUILDABLE
    (fault,) = caught.value.faults
    reason = "ImportError: huggingface-hub>=9 is needed"
    base = "transformers cannot be imported in the environment of 4.50.3"
    assert fault.what == f"{base}: {reason}"
    assert list(clone.rglob("__pycache__")) == []
