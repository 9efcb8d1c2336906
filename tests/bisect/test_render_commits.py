"""The answers of `bisect --commits` in words."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import factories

from repromatrix.runner.bisect import commits as telling
from repromatrix.runner.bisect.commit_trials import CommitTrial
from repromatrix.runner.bisect.commits import (
    CommitAnswer,
    CommitOutcome,
    Doubt,
    sentence,
)
from repromatrix.runner.bisect.git_lines import CommitLine, End, EndSource
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.repository import Commit
from repromatrix.runner.bisect.search import Answer, Edge
from repromatrix.runner.cli.bisect import BisectOptions, clones_for
from repromatrix.runner.cli.options import portable
from repromatrix.runner.document import write
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from kept import Expected


def commit(letter: str, subject: str) -> Commit:
    return Commit(sha=letter * 40, date="2025-03-28T12:00:00+01:00", subject=subject)


HEAL = commit("c", "Heal it (#37044)")
OLD, NEW = (
    End(release=name, revision=f"v{name}", commit=letter * 40, claims=name, environment=name)
    for name, letter in (("4.50.3", "1"), ("4.51.0", "2"))
)
LINE = CommitLine(name="main", commits=("a" * 40, *map(str, range(255)), "e" * 40))
TRIALS = (
    CommitTrial(
        commit="a" * 40, answer=Answer.YES, environment="4.51.0", reason="ValueError: it breaks"
    ),
    CommitTrial(
        commit="e" * 40, answer=Answer.NO, environment="4.51.0", reason="passes", known=True
    ),
    CommitTrial(
        commit="b" * 40, answer=Answer.UNKNOWN, environment="4.51.0", reason="TypeError: <x>|@y"
    ),
)
FOUND = CommitAnswer(
    ending=CommitOutcome.FOUND,
    question=CaseQuestion(
        case=factories.case(), workaround="", precision=Precision.BF16, device=Device.CPU
    ),
    edge=Edge.FALL,
    package="transformers",
    older=OLD,
    newer=NEW,
    searched=LINE,
    last_old=commit("b", "B"),
    first_new=HEAL,
    candidates=(HEAL,),
    trials=TRIALS,
    is_dirty=True,
)
BOTH = (commit("b", "B"), HEAL)
ENDINGS = {
    ending.value: dataclasses.replace(FOUND, ending=ending, candidates=BOTH)
    for ending in CommitOutcome
    if ending is not CommitOutcome.FOUND
}
DOUBTED: dict[tuple[Doubt, str], dict[str, object]] = {
    (Doubt.NEWER_END, ""): {"first_new": None},
    (Doubt.OLDER_END, ""): {"last_old": None},
    (Doubt.NEWER_END, ", one candidate"): {"first_new": None, "candidates": (HEAL,)},
    (Doubt.ENVIRONMENTS, ""): {"candidates": (HEAL,)},
    (Doubt.CONTRADICTION, ""): {
        "confirmations": (dataclasses.replace(TRIALS[0], answer=Answer.NO, again=True),)
    },
    (Doubt.PARENT, ""): {"candidates": (HEAL,)},
}
DOUBTS = {
    f"{doubt.value}{more}": dataclasses.replace(
        ENDINGS[CommitOutcome.CANDIDATES.value],
        doubt=doubt,
        **changed,  # type: ignore[arg-type]
    )
    for (doubt, more), changed in DOUBTED.items()
}


def by_two_environments() -> tuple[CommitAnswer, CommitAnswer]:
    """Return an answer that two environments judged, and one that they judged otherwise."""
    newer = dataclasses.replace(TRIALS[1], commit="c" * 40)
    older = dataclasses.replace(TRIALS[2], environment="4.50.3")
    both = dataclasses.replace(
        FOUND,
        trials=(*TRIALS[:2], older, newer),
        confirmations=(dataclasses.replace(newer, again=True),),
    )
    otherwise = dataclasses.replace(older, commit="c" * 40)
    ending = CommitOutcome.ENVIRONMENT
    return both, dataclasses.replace(both, ending=ending, trials=(*both.trials, otherwise))


def with_older(**more: object) -> CommitAnswer:
    """Return the answer with another older end."""
    return dataclasses.replace(FOUND, older=dataclasses.replace(OLD, **more))  # type: ignore[arg-type]


ANSWERS = {
    "two environments": by_two_environments()[0],
    "two environments that disagree": by_two_environments()[1],
    "a side that was not judged": DOUBTS[Doubt.NEWER_END.value],
    "a tag that claims another version": with_older(
        release="5.10.4", revision="v5.10.3", commit="3" * 40, claims="5.10.4"
    ),
    "an end without a tag": with_older(
        revision="the cut of 4.50",
        claims="4.50.0.dev0",
        by=EndSource.PLACE,
        note="4.50.3 is not in the clone; the commit from which 4.50 was cut stands for it",
    ),
    "a change on the older branch": dataclasses.replace(
        FOUND,
        searched=dataclasses.replace(LINE, name="the branch of v4.50.3"),
        is_reversed=True,
    ),
}
"""Answers of which the whole page is kept."""


def read(answer: CommitAnswer, form: str) -> str:
    return write(telling.commits_document(answer, "nox -s bisect"), form)


def test_every_answer_reads_as_expected(expected: Expected) -> None:
    pages = {"found": FOUND, **ANSWERS}

    expected(
        "commits",
        {title: read(one, "text") for title, one in pages.items()}
        | {
            "found, to paste": read(FOUND, "markdown"),
            "found, for a program": read(FOUND, "json"),
            **{
                f"{title}, for a program": read(ANSWERS[title], "json")
                for title in ("a side that was not judged", "an end without a tag")
            },
        }
        | {f"ending: {title}": sentence(one) for title, one in ENDINGS.items()}
        | {f"doubt: {title}": sentence(one) for title, one in DOUBTS.items()},
    )


def test_what_goes_on_is_heard_in_a_line_each() -> None:
    line = CommitLine(name="main", commits=tuple(map(str, range(257))))

    assert [telling.heard(event) for event in (line, *TRIALS)] == [
        "main: 256 commits, at most 8 more trials",
        "aaaaaaaaaaaa bad: ValueError: it breaks",
        "eeeeeeeeeeee good, known: passes",
        "bbbbbbbbbbbb not judged: TypeError: <x>|@y",
    ]


def test_a_command_to_paste_names_no_folder_of_this_machine() -> None:
    typed = ["./toy.py", "--repo", "/home/me/transformers", "--repo=/home/me/peft/"]

    assert portable(typed) == ("./toy.py", "--repo", "transformers", "--repo=peft")
    assert portable(["../toy.py"]) == ("path/to/toy.py",)


def test_a_clone_that_is_named_by_a_dot_is_named_after_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "transformers" / "src").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "transformers" / "src")

    assert portable(["--repo", ".", "--repo=.."]) == ("--repo", "src", "--repo=transformers")


def test_without_them_nothing_is_asked_of_commits() -> None:
    assert clones_for(Paths(), BisectOptions(case=["toy"])) == ()
