"""Which cases `check` calls proven."""

from __future__ import annotations

import dataclasses
import io
import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import small_checkout
from factories import CODE, case_text, seen
from rich.console import Console
from tiny_recipes import CONTENT

from repromatrix.runner.cli.check import _contradicted, _judged, _other_fixes, examine
from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.commits import PinnedCommit, as_text
from repromatrix.runner.evidence.margins import NAME as MARGINS
from repromatrix.runner.evidence.margins import as_text as margins_text
from repromatrix.runner.evidence.margins import row_of as margin_row
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import not_built
from repromatrix.runner.judging.margins import Threshold
from repromatrix.runner.model.observation import LOCAL
from repromatrix.runner.model.outcomes import Outcome
from repromatrix.runner.paths import Paths
from repromatrix.runner.project import load
from repromatrix.sweep.recipe_files import write as write_recipe

if TYPE_CHECKING:
    from pathlib import Path

ERROR = Threshold("error", below=True, limit=0.06)
PROVEN, AWAITED = "blip2_load_half", "blip2_on_a_gpu"


def said(paths: Paths, *, margins: bool = False) -> str:
    text = io.StringIO()
    console = Console(file=text, width=500)
    assert examine(paths, console, margins=margins) is ExitCode.AS_EXPECTED
    return text.getvalue()


def test_thresholds_without_margins_are_noted_and_others_printed_when_asked(
    tmp_path: Path,
) -> None:
    places = small_checkout.checkout(tmp_path)
    asserts = f'{CODE}assert measured["error"] < 0.06\n'
    for name in ("toy_breaks", "toy_melts", "toy_waits"):
        (places.cases / f"{name}.py").write_text(case_text(code=asserts))
    cases = load(places).cases
    rows = [
        margin_row(cases[name], ERROR, [("3", dataclasses.replace(seen(), measured=measured))])
        for name, measured in (("toy_breaks", {"error": 0.01}), ("toy_melts", {"error": 0.03}))
    ]
    places.published.mkdir(parents=True)
    (places.published / MARGINS).write_text(margins_text(rows))
    wide = "cases/toy_breaks.py: error < 0.06: passes at 0.01 (6.00 times off, bf16 on 4.50.0,"
    narrow = "cases/toy_melts.py: note: nearer than 3 times to what was measured: error < 0.06:"
    awaited = "cases/toy_waits.py: note: error < 0.06: not measured over several seeds."

    asked, brief = said(places, margins=True), said(places)

    assert [text in asked for text in (wide, narrow, awaited)] == [True, True, True]
    assert [text in brief for text in (wide, narrow, awaited)] == [False, True, True]


@pytest.fixture(scope="module")
def awaiting(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    """Return a checkout with a case of this one, and one more, which waits for a GPU."""
    own, here = Paths(), small_checkout.checkout(tmp_path_factory.mktemp("awaiting"))
    shutil.copy(own.cases / f"{PROVEN}.py", here.cases)
    # Decisions about findings name cases that are not here.
    shutil.copytree(own.published, here.published, ignore=shutil.ignore_patterns("sweep"))
    text = (own.cases / f"{PROVEN}.py").read_text()
    needs = text.replace("# trigger = ", '# needs = ["cuda"]\n# trigger = ', 1)
    (here.cases / f"{AWAITED}.py").write_text(needs)
    return here


@pytest.fixture(scope="module")
def before(awaiting: Paths) -> str:
    """Return what is said where nothing was measured."""
    return said(awaiting)


def test_a_recipe_that_was_edited_is_a_fault(tmp_path: Path) -> None:
    places = small_checkout.checkout(tmp_path)
    write_recipe(places.recipes, CONTENT)
    path = places.recipes / "llama.json"
    path.write_text(path.read_text().replace("32", "64"))

    with pytest.raises(RunnerError) as raised:
        said(places)

    (fault,) = map(str, raised.value.faults)
    what, mend = "its digest does not fit: the file was edited.", "Restore it with git;"
    assert fault == f"sweep/recipes/llama.json: {what} {mend} recipes are frozen."


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome.OUT_OF_MEMORY,
        pytest.param(Outcome.NOT_RUN, marks=pytest.mark.whole),
        Outcome.UNBUILDABLE,
    ],
)
def test_what_the_machine_decided_here_changes_no_word_of_check(
    awaiting: Paths, before: str, outcome: Outcome
) -> None:
    loaded = load(awaiting)
    rows = answers.published_rows(loaded.paths, {PROVEN})
    cells = [row.cell for row in rows]
    awaited = [one._replace(case=AWAITED, workaround="") for one in cells]

    with closing(Store(awaiting.store, print)) as store:
        store.put(*not_built(awaited, loaded.cases, "no such torch", "20260101T000000"))
        if outcome is Outcome.UNBUILDABLE:
            store.put(*not_built(cells, loaded.cases, "no such torch", "20260101T000000"))
        else:
            store.put(*(dataclasses.replace(one, outcome=outcome, source=LOCAL) for one in rows))

    assert AWAITED in before
    assert PROVEN not in before
    assert said(awaiting) == before
    assert _judged(loaded)[AWAITED] == []


def test_what_was_measured_here_proves_a_case_that_nobody_has_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = answers.published_rows(Paths(), {PROVEN})
    monkeypatch.setattr(answers, "published_rows", lambda *_: [])
    with closing(Store(Paths().store, print)) as store:
        store.put(*(dataclasses.replace(one, source=LOCAL) for one in rows))
    unproven = [line for line in said(Paths()).splitlines() if "not proven" in line]

    assert len(unproven) == len(load(Paths()).cases) - 1
    assert [line for line in unproven if PROVEN in line] == []


def test_a_commit_of_a_change_that_no_results_show_is_a_fault(tmp_path: Path) -> None:
    case = "gemma3_trainer_eval"
    shown = PinnedCommit(
        *(case, "", "bf16", "cpu", "fix", "4.50.3", "4.51.0"), "transformers", commit="b" * 40
    )
    wrong = shown._replace(before="4.51.0", at="4.51.1")
    folder = tmp_path / "reports" / "published"
    shutil.copytree(Paths().published, folder)
    judged = _judged(load(Paths(), [Paths().cases / f"{case}.py"]))
    paths = Paths(root=tmp_path)

    (folder / "commits.csv").write_text(as_text([shown]))
    assert list(_contradicted(paths, judged)) == []
    (folder / "commits.csv").write_text(as_text([shown, wrong]))
    (fault,) = _contradicted(paths, judged)

    said = "gemma3_trainer_eval bf16: results do not show a fix between 4.51.0 and 4.51.1"
    assert fault.what == said


def test_a_fix_on_record_that_measurement_contradicts_is_a_note(tmp_path: Path) -> None:
    case = "gemma3_trainer_eval"
    key = (case, "", "bf16", "cpu", "fix", "4.50.3", "4.51.0")
    row = PinnedCommit(
        *key, "transformers", commit="b" * 40, date="2025-03-28", pull_request="37044"
    )
    paths = Paths(root=tmp_path)
    paths.published.mkdir(parents=True)
    loaded = dataclasses.replace(load(Paths(), [Paths().cases / f"{case}.py"]), paths=paths)

    (paths.published / "commits.csv").write_text(as_text([row]))
    assert list(_other_fixes(loaded)) == []
    (paths.published / "commits.csv").write_text(as_text([row._replace(pull_request="9")]))
    (note,) = _other_fixes(loaded)
    assert note == (
        "cases/gemma3_trainer_eval.py: note: entry 1 of `fails` has"
        " https://github.com/huggingface/transformers/pull/37044 on record (`fixed-by`);"
        " measured: bbbbbbbbbbbb (2025-03-28, transformers#9)."
    )
