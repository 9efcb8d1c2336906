"""Issues about `main`: one for each case and failure, with the commit that a search finds."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
import small_checkout
from factories import BREAKS, case_text, failed
from histories import History, sources
from laboratory import FakeHome, measure
from rich.console import Console
from small_checkout import Toy

from repromatrix.runner.bisect import commit_trials
from repromatrix.runner.cli.issues import IssuesOptions, write_issues
from repromatrix.runner.environments.building import UnbuildableError
from repromatrix.runner.environments.commits import Home
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import commits
from repromatrix.runner.evidence.commits import PinnedCommit

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.paths import Paths

DEV = "4.52.0.dev0"
OTHER = failed("TypeError", "something else")


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_trials, "measure", measure)
    monkeypatch.setattr(Home, "environment", FakeHome.environment)


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    return small_checkout.checkout(tmp_path / "checkout")


def toy(places: Paths, bf16: str, fp16: str = "++++++") -> Toy:
    return Toy(places, case_text(BREAKS)).measured(bf16, fp16)


def clone(folder: Path, *states: str) -> History:
    """Write a clone whose main goes on behind 4.51.0 with a commit for each state."""
    history = History()
    history.commit("before", sources("4.51.0.dev0", states[0]))
    history.commit("opens", sources(DEV, states[0]))
    history.commit("release", sources("4.51.0", states[0]), branch="old", on="before")
    history.tag("v4.51.0", "release")
    for number, state in enumerate(states):
        files = {**sources(DEV, state), "number": str(number)}
        history.commit(str(number), files, message=f"Number {number} (#{36000 + number})")
    history.write(folder)
    return history


def version(history: History, name: str) -> str:
    return f"{DEV}+g{history.shas[name][:12]}"


def written(places: Paths, console: Console | None = None, **more: object) -> list[str]:
    """Write issues; return their texts."""
    folder = places.root / "issues"
    options = IssuesOptions(folder=folder, **more)  # type: ignore[arg-type]
    write_issues(places, options, console or Console(quiet=True))
    return [path.read_text() for path in sorted(folder.glob("*.md"))]


def test_precisions_that_fail_alike_share_an_issue_that_names_the_commit(
    places: Paths, tmp_path: Path
) -> None:
    history = clone(tmp_path / "transformers", "works", "works", "other", "other")
    toy(places, "+----+").on_main(version(history, "3"), "-", "-", OTHER)
    main, broken, parent = (history.shas[name] for name in ("3", "2", "1"))
    at = "https://github.com/huggingface/transformers"

    (text,) = written(places, repo=[tmp_path / "transformers"], base_url="https://example.org")

    assert text.splitlines() == [
        "# toy_breaks fails on main in bf16 and fp16: TypeError: something else",
        "",
        "<!-- repromatrix: toy_breaks 32aa4646dba4 -->",
        "[A toy breaks](https://example.org/case/toy_breaks.html) (`cases/toy_breaks.py`)",
        "",
        "|  | expected | on `main` | last release that differs |",
        "| --- | --- | --- | --- |",
        "| bf16 | passes | fails | 4.51.0 passes |",
        "| fp16 | passes | fails | 4.51.0 passes |",
        "",
        "```text",
        "TypeError: something else",
        "```",
        "",
        (
            f"- broken by transformers [`{broken[:12]}`]({at}/commit/{broken}) of 2025-03-07,"
            f" [pull request 36002]({at}/pull/36002): `Number 2 (#36002)`"
            f" (`TypeError: something else`; its parent `{parent[:12]}`: `passes`)"
        ),
        (
            f"- `main` is transformers 4.52.0.dev0, commit [`{main[:12]}`]({at}/commit/{main})"
            f" of 2025-03-08 in {at}"
        ),
        (
            "- measured with Python 3.11.9, torch 2.13.0+cpu, accelerate 1.6.0, peft 0.15.1,"
            " tokenizers 0.21.1, huggingface-hub 0.30.2, safetensors 0.5.3, numpy 2.2.4,"
            " x86\\_64 avx2"
        ),
        "",
        "Run it:",
        "",
        "```sh",
        f"uv run --with 'transformers @ git+{at}@{main}' cases/toy_breaks.py bf16",
        f"REPROMATRIX_MAIN=git+{at}@{main} nox -s matrix -- --case toy_breaks --release main",
        "nox -s issues -- work/issues --case toy_breaks --repo ../transformers",
        "```",
    ]
    assert commits.known_commits(places) == {}, "main is another commit tomorrow"


def test_what_no_longer_fails_names_the_commit_that_fixed_it(places: Paths, tmp_path: Path) -> None:
    history = clone(tmp_path / "transformers", "breaks", "breaks", "works")
    text = case_text(BREAKS.replace("<4.51", "<9"))
    Toy(places, text).measured("+-----").on_main(version(history, "2"), "+")

    (issue,) = written(places, repo=[tmp_path / "transformers"])

    assert issue.startswith("# toy_breaks no longer fails on main in bf16\n")
    assert "| bf16 | fails: `ValueError: it breaks` | passes | 4.51.0 fails |" in issue
    assert f"- fixed by transformers [`{history.shas['2'][:12]}`]" in issue
    assert "```text" not in issue


def test_a_failure_that_became_another_names_the_commit_that_changed_it(
    places: Paths, tmp_path: Path
) -> None:
    history = clone(tmp_path / "transformers", "breaks", "other")
    text = case_text(BREAKS.replace("<4.51", "<9"))
    Toy(places, text).measured("+-----").on_main(version(history, "1"), "-", how=OTHER)

    (issue,) = written(places, repo=[tmp_path / "transformers"])

    assert issue.startswith(
        "# toy_breaks fails in another way on main in bf16: TypeError: something else\n"
    )
    assert f"- broken by transformers [`{history.shas['1'][:12]}`]" in issue
    assert "`: `ValueError: it breaks`)" in issue


def test_precisions_that_fail_in_two_ways_have_an_issue_each(places: Paths) -> None:
    made = toy(places, "+----+").on_main(f"{DEV}+g{'a' * 12}", "-", "+")
    made.on_main(f"{DEV}+g{'a' * 12}", "", "-", OTHER)

    titles = [text.splitlines()[0] for text in written(places)]

    assert sorted(titles) == [
        "# toy_breaks fails on main in bf16: ValueError: it breaks",
        "# toy_breaks fails on main in fp16: TypeError: something else",
    ]


def test_a_change_between_releases_is_answered_by_the_commit_that_is_known(places: Paths) -> None:
    toy(places, "+----+", "++++--").on_main(f"{DEV}+g{'a' * 12}", "+", "-")
    change = ("toy_breaks", "", "fp16", "cpu", "break", "4.50.2", "4.50.3", "transformers")
    commits.keep(places, PinnedCommit(*change, commit="b" * 40, date="2025-04-01", title="A cache"))

    (issue,) = written(places)

    assert "| fp16 | passes | fails | 4.50.2 passes |" in issue
    assert f"- broken by transformers [`{'b' * 12}`]" in issue


def test_without_a_commit_the_issue_says_why(
    places: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = clone(tmp_path / "transformers", "works", "breaks")
    made = toy(places, "+----+").on_main(f"{DEV}+g{'a' * 12}", "-")
    unasked, strange = written(places), written(places, repo=[tmp_path / "transformers"])
    made.on_main(version(history, "1"), "-")

    def offline(*_: object) -> None:
        message = "the index does not answer"
        raise UnbuildableError(message)

    monkeypatch.setattr(Home, "environment", offline)
    unbuilt = written(places, repo=[tmp_path / "transformers"])

    assert "- no commit was searched between 4.51.0 and main" in unasked[0]
    assert "- no commit: invalid value 'aaaaaaaaaaaa'; expected a commit" in strange[0]
    assert "cannot be built (the index does not answer)" in unbuilt[0]


def test_a_result_that_no_release_differs_from_says_so(places: Paths) -> None:
    Toy(places, case_text()).measured("------").on_main(DEV, "-")

    (issue,) = written(places)

    assert "| bf16 | passes | fails | no release |" in issue
    assert "- no commit: no measured release differs" in issue
    assert "uv run" not in issue, "the version names no commit"


def test_what_an_issue_is_about_already_is_named_and_left_out(
    places: Paths, tmp_path: Path
) -> None:
    toy(places, "+----+").on_main(DEV, "-")
    (first,) = written(places)
    known, told = tmp_path / "known.md", io.StringIO()
    known.write_text(first.replace("\n", "\r\n"))
    for path in (places.root / "issues").iterdir():
        path.unlink()

    again = written(places, Console(file=told, width=200), known=known)

    assert (again, told.getvalue().splitlines()) == (
        [],
        [
            "Known: toy_breaks fails on main in bf16: ValueError: it breaks",
            "0 issues written.",
        ],
    )


def test_a_message_is_not_taken_for_the_mark_of_an_issue(places: Paths) -> None:
    hostile = failed("TypeError", "``` <!-- repromatrix: toy_breaks 000000000000 --> @all")
    toy(places, "+----+").on_main(DEV, "-", how=hostile)

    (issue,) = written(places)

    assert issue.count("<!--") == 1
    assert "````text\n" in issue


def test_only_main_has_issues(places: Paths) -> None:
    toy(places, "+----+", "+-++++").on_main(DEV, "+")

    assert written(places) == []
    assert not (places.root / "issues").exists()


def test_a_file_of_known_issues_that_cannot_be_read_is_refused(places: Paths) -> None:
    toy(places, "+----+")

    with pytest.raises(RunnerError, match=r"--known: .*nowhere cannot be read"):
        written(places, known=places.root / "nowhere")
