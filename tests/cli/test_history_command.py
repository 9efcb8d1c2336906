"""`history`: what is refused before anything is run, and what is printed of what is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import small_checkout
from factories import BREAKS, case_text
from histories import History, sources
from laboratory import STATE, FakeHome, measure
from rich.console import Console

from repromatrix.runner.bisect import commit_trials
from repromatrix.runner.cli import history as command
from repromatrix.runner.cli.history import HistoryOptions
from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.evidence import history
from repromatrix.runner.model.outcomes import Precision

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.paths import Paths

WRITTEN = History()
WRITTEN.commit("before", sources("4.50.0.dev0", "breaks"))
WRITTEN.commit("opens", sources("4.51.0.dev0", "works"))
for number, state in enumerate(["works", "breaks", "other"]):
    WRITTEN.commit(str(number), {STATE: state, "number": str(number)})


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """A checkout of two releases with one case, where trials take no time."""
    found = small_checkout.checkout(tmp_path / "ours", ("4.50.0", "4.51.0"))
    (found.cases / "toy_breaks.py").write_text(case_text(BREAKS))
    monkeypatch.setattr(commit_trials, "measure", measure)
    monkeypatch.setattr(command, "Home", lambda *, paths, **_: FakeHome(paths))
    return found


@pytest.fixture
def clone(places: Paths, tmp_path: Path) -> Path:
    """A clone without tags, whose releases the checkout places."""
    WRITTEN.write(tmp_path / "clone")
    chosen = HistoryOptions(repo=tmp_path / "clone", places=True)
    assert command.measure(places, chosen, Console(quiet=True)) is ExitCode.AS_EXPECTED
    return tmp_path / "clone"


def test_where_releases_left_main_is_added_to_the_file(places: Paths, clone: Path) -> None:
    assert clone.exists()
    assert f'\n[transformers]\n"4.50" = "{WRITTEN.shas["before"]}"\n' in places.places.read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"repo": None}, r"--repo: is missing.*Give the path of a clone"),
        ({}, r"no commits are chosen.*--every 200 or --every 4w"),
        ({"places": True, "every": "2"}, r"--places cannot be combined with --every"),
        ({"every": "often"}, r"--every.*often.*a number of commits"),
        ({"case": ["nosuch"], "every": "2"}, "nosuch"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_runs(
    places: Paths, clone: Path, options: dict[str, object], said: str
) -> None:
    chosen = HistoryOptions(**{"repo": clone, **options})  # type: ignore[arg-type]

    with pytest.raises(RunnerError, match=said):
        command.measure(places, chosen, Console(quiet=True))
    assert not places.history.exists()


def test_a_clone_of_another_package_is_refused(places: Paths, tmp_path: Path) -> None:
    made = History()
    made.commit("only", {"src/peft/__init__.py": '__version__ = "0.18.0"\n'})
    made.write(tmp_path / "peft")

    with pytest.raises(RunnerError, match=r"holds peft.*Give a clone of transformers"):
        command.measure(places, HistoryOptions(repo=tmp_path / "peft", every="2"), Console())


def test_each_point_is_measured_once_and_what_it_did_is_printed(
    places: Paths, clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = HistoryOptions(repo=clone, every="1", precision=["bf16"], sandbox=False)

    command.measure(places, chosen, Console(quiet=True))
    first = capsys.readouterr().out
    known = history.known_history(places)
    command.measure(places, chosen, Console(quiet=True))

    told = "fails on 2025-03-02; passes 2025-03-03 to 2025-03-04; fails on 2025-03-05"
    why = "fails differently (TypeError: something else)"
    assert first.splitlines() == [
        f"toy_breaks bf16: {told}; not judged on 2025-03-06 ({why})",
        "5 commits measured.",
    ]
    assert capsys.readouterr().out == first
    assert next(iter(known.answers)).precision is Precision.BF16
    assert history.known_history(places) == known
