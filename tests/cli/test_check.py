"""Which cases `check` calls proven."""

from __future__ import annotations

import dataclasses
import io
from contextlib import closing

import pytest
from rich.console import Console

from repromatrix.runner.cli.check import _judged, examine
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import not_built
from repromatrix.runner.model.observation import LOCAL
from repromatrix.runner.model.outcomes import Outcome
from repromatrix.runner.paths import Paths
from repromatrix.runner.project import load

PROVEN, AWAITED = "blip2_load_half", "unsloth_gemma3_bf16"


def said() -> str:
    text = io.StringIO()
    assert examine(Paths(), Console(file=text, width=500)) is ExitCode.AS_EXPECTED
    return text.getvalue()


@pytest.fixture(scope="module")
def before() -> str:
    """Return what is said where nothing was measured."""
    return said()


@pytest.mark.parametrize("outcome", [Outcome.OUT_OF_MEMORY, Outcome.NOT_RUN, Outcome.UNBUILDABLE])
def test_what_the_machine_decided_here_changes_no_word_of_check(
    before: str, outcome: Outcome
) -> None:
    loaded = load(Paths())
    rows = answers.published_rows(loaded.paths, {PROVEN})
    cells = [row.cell for row in rows]
    awaited = [one._replace(case=AWAITED, workaround="") for one in cells]

    with closing(Store(Paths().store, print)) as store:
        store.put(*not_built(awaited, loaded.cases, "no such torch", "20260101T000000"))
        if outcome is Outcome.UNBUILDABLE:
            store.put(*not_built(cells, loaded.cases, "no such torch", "20260101T000000"))
        else:
            store.put(*(dataclasses.replace(one, outcome=outcome, source=LOCAL) for one in rows))

    assert AWAITED in before
    assert PROVEN not in before
    assert said() == before
    assert _judged(loaded)[AWAITED] == []


def test_what_was_measured_here_proves_a_case_that_nobody_has_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = answers.published_rows(Paths(), {PROVEN})
    monkeypatch.setattr(answers, "published_rows", lambda *_: [])
    with closing(Store(Paths().store, print)) as store:
        store.put(*(dataclasses.replace(one, source=LOCAL) for one in rows))
    *unproven, _ = said().splitlines()

    assert len(unproven) == len(load(Paths()).cases) - 1
    assert [line for line in unproven if PROVEN in line] == []
