from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import factories
import pytest

from repromatrix.runner.bisect import commits as telling
from repromatrix.runner.bisect.commit_trials import CommitTrial
from repromatrix.runner.bisect.commits import (
    CommitAnswer,
    CommitOutcome,
    Doubt,
    End,
    Searched,
    sentence,
)
from repromatrix.runner.bisect.git_lines import CommitLine, EndSource, TaggedCommit, Twin
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.repository import Commit
from repromatrix.runner.bisect.search import Answer, Edge
from repromatrix.runner.cli.bisect import BisectOptions, clones_for
from repromatrix.runner.cli.options import portable
from repromatrix.runner.document import write
from repromatrix.runner.model.outcomes import Device, Precision

if TYPE_CHECKING:
    from pathlib import Path


def commit(letter: str, subject: str) -> Commit:
    return Commit(sha=letter * 40, date="2025-03-28T12:00:00+01:00", subject=subject)


HEAL = commit("c", "Heal it (#37044)")
OLD, NEW = (
    End(
        mark=TaggedCommit(wanted=name, revision=f"v{name}", commit=letter * 40, claims=name),
        environment=name,
    )
    for name, letter in (("4.50.3", "1"), ("4.51.0", "2"))
)
LINE = Searched(
    name="main", first=commit("a", "A"), last=commit("e", "E"), count=256, edge=Edge.FALL
)
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
    twin=Twin(
        commit=commit("d", "Heal it (#37044)"), line="the branch of v4.51.0", by="the same patch"
    ),
    trials=TRIALS,
    is_dirty=True,
)
TEXT = """\
toy_breaks in bf16 is fixed by cccccccccccc of 2025-03-28: Heal it (#37044)

pull request  https://github.com/huggingface/transformers/pull/37044
same change   dddddddddddd of 2025-03-28: Heal it (#37044) (the branch of v4.51.0, the same patch)
last bad      bbbbbbbbbbbb of 2025-03-28: B
searched      main, 256 commits by first parents, aaaaaaaaaaaa to eeeeeeeeeeee
older end     v4.50.3 at 111111111111, claims transformers 4.50.3
newer end     v4.51.0 at 222222222222, claims transformers 4.51.0
trials        3, 1 of them known already
packages      those of 4.51.0
left out      changes in the clone that are not committed

Could not be judged:
  bbbbbbbbbbbb  TypeError: <x>|@y
"""


def text(answer: CommitAnswer) -> str:
    return write(telling.commits_document(answer, "nox -s bisect"), "text")


def read(answer: CommitAnswer) -> Any:  # noqa: ANN401 - what JSON holds
    return json.loads(write(telling.commits_document(answer, "nox -s bisect"), "json"))


def test_a_page_for_the_terminal_says_all_of_it() -> None:
    assert text(FOUND) == TEXT


def test_what_is_pasted_has_every_trial_and_what_repeats_the_search() -> None:
    page = write(telling.commits_document(FOUND, "nox -s bisect"), "markdown")

    *_, row = [line for line in page.splitlines() if "TypeError" in line]
    assert row.endswith("| not judged | 4.51.0 |  | TypeError: &lt;x>\\|@\u200by |")
    assert page.endswith("Repeat it:\n\n```sh\nnox -s bisect\n```\n")


def test_json_has_everything_and_nothing_that_json_lacks() -> None:
    told = read(FOUND)

    assert told["commit"] == {
        "commit": "c" * 40,
        "date": "2025-03-28T12:00:00+01:00",
        "subject": "Heal it (#37044)",
        "pull_request": 37044,
    }
    assert (told["ending"], told["exit_code"], told["runs"], told["known"]) == ("found", 0, 2, 1)
    assert told["twin"]["by"] == "the same patch"
    assert [one["answer"] for one in told["trials"]] == ["yes", "no", "unknown"]


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (
            CommitOutcome.CANDIDATES,
            (
                "toy_breaks in bf16 is fixed by one of 2 commits; the others could not be judged:"
                " bbbbbbbbbbbb, cccccccccccc"
            ),
        ),
        (
            CommitOutcome.ENVIRONMENT,
            (
                "toy_breaks in bf16: no commit of transformers decides, the environment does."
                " The sources of v4.50.3 and v4.51.0 behave alike with the packages of their days."
                " Find the package: `nox -s blame -- toy_breaks --precision bf16 --good 4.51.0"
                " --bad 4.50.3`"
            ),
        ),
        (CommitOutcome.NEVER, "toy_breaks in bf16 does not fail at v4.50.3, nor at v4.51.0."),
        (CommitOutcome.ALWAYS, "toy_breaks in bf16 fails at v4.50.3 and at v4.51.0."),
        (
            CommitOutcome.CONTRARY,
            "toy_breaks in bf16 is good at v4.50.3 and bad at v4.51.0: search without --fix.",
        ),
        (
            CommitOutcome.MUTE,
            "toy_breaks in bf16 is undecided: an end and its neighbours could not be judged.",
        ),
    ],
)
def test_every_ending_has_its_sentence(ending: CommitOutcome, said: str) -> None:
    candidates = (commit("b", "B"), HEAL)

    assert sentence(dataclasses.replace(FOUND, ending=ending, candidates=candidates)) == said


@pytest.mark.parametrize(
    ("doubt", "more", "said"),
    [
        (
            Doubt.NEWER_END,
            {"first_new": None},
            (
                "is undecided: the newer end could not be judged: if it is good, it is fixed by"
                " one of 2 commits: run bbbbbbbbbbbb; not run cccccccccccc"
            ),
        ),
        (
            Doubt.OLDER_END,
            {"last_old": None},
            (
                "is undecided: the older end could not be judged: if it is bad, it is fixed by"
                " one of 2 commits: run bbbbbbbbbbbb; not run cccccccccccc"
            ),
        ),
        (
            Doubt.NEWER_END,
            {"first_new": None, "candidates": (HEAL,)},
            (
                "is undecided: the newer end could not be judged: if it is good, it is fixed by"
                " cccccccccccc"
            ),
        ),
        (
            Doubt.ENVIRONMENTS,
            {"candidates": (HEAL,)},
            (
                "is fixed by cccccccccccc or by the environment: the last bad one was judged with"
                " the packages of 4.51.0, with which cccccccccccc could not be judged"
            ),
        ),
        (
            Doubt.CONTRADICTION,
            {"confirmations": (dataclasses.replace(TRIALS[0], answer=Answer.NO, again=True),)},
            (
                "is undecided: aaaaaaaaaaaa is bad and, run once more, good; it is fixed by one of"
                " 2 commits: run bbbbbbbbbbbb; not run cccccccccccc"
            ),
        ),
        (
            Doubt.PARENT,
            {"candidates": (HEAL,)},
            (
                "is undecided: cccccccccccc is joined to the last bad commit by a merge, and its"
                " own parent is not bad"
            ),
        ),
    ],
)
def test_every_doubt_has_its_sentence(doubt: Doubt, more: dict[str, object], said: str) -> None:
    answer = dataclasses.replace(
        FOUND, ending=CommitOutcome.CANDIDATES, doubt=doubt, candidates=(commit("b", "B"), HEAL)
    )
    told = dataclasses.replace(answer, **more)  # type: ignore[arg-type]

    assert sentence(told) == f"toy_breaks in bf16 {said}"


def test_a_side_that_was_not_judged_is_not_called_the_first_bad() -> None:
    half = dataclasses.replace(
        FOUND, ending=CommitOutcome.CANDIDATES, doubt=Doubt.NEWER_END, first_new=None
    )

    assert "first good" not in text(half)
    assert read(half)["first_new"] is None


def test_where_two_environments_judged_it_is_said() -> None:
    newer = dataclasses.replace(TRIALS[1], commit="c" * 40)
    told = dataclasses.replace(
        FOUND,
        trials=(*TRIALS[:2], dataclasses.replace(TRIALS[2], environment="4.50.3"), newer),
        confirmations=(dataclasses.replace(newer, again=True),),
    )
    page = text(told)

    judged = (
        "judged in     bbbbbbbbbbbb with the packages of 4.50.3, cccccccccccc with the packages"
        " of 4.51.0\n"
    )
    assert judged in page
    assert "trials        4, 2 of them known already, and both sides once more before\n" in page
    by_environment = dataclasses.replace(
        told,
        ending=CommitOutcome.ENVIRONMENT,
        trials=(
            *told.trials,
            dataclasses.replace(TRIALS[2], commit="c" * 40, environment="4.50.3"),
        ),
    )
    assert sentence(by_environment).endswith(
        " cccccccccccc is good with the packages of 4.51.0 and bad with those of 4.50.3. Find"
        " the package: `nox -s blame -- toy_breaks --precision bf16 --good 4.51.0 --bad 4.50.3`"
    )


def test_a_tag_that_claims_another_version_is_said_to() -> None:
    mark = TaggedCommit(wanted="5.10.4", revision="v5.10.3", commit="3" * 40, claims="5.10.4")
    page = text(dataclasses.replace(FOUND, older=End(mark=mark, environment="5.10.4")))

    assert "v5.10.3 (no tag of its own name claims it) at 333333333333, claims" in page


def test_an_end_without_a_tag_is_said_to_be_derived() -> None:
    mark = dataclasses.replace(
        OLD.mark,
        revision="main before 4.51.0.dev0",
        claims="4.50.0.dev0",
        by=EndSource.DECLARED,
        note="4.50.3 is not in the clone; 4.50.0 stands for it",
    )
    answer = dataclasses.replace(FOUND, older=dataclasses.replace(OLD, mark=mark))
    page = text(answer)

    assert "older end     main before 4.51.0.dev0 at 111111111111, claims" in page
    assert "derived end   4.50.3 is not in the clone; 4.50.0 stands for it" in page
    told = read(answer)
    assert [(told[end]["by"], told[end]["note"]) for end in ("older", "newer")] == [
        ("declared", mark.note),
        ("tag", ""),
    ]


def test_a_change_on_the_older_branch_is_said_to_turn_round() -> None:
    line = dataclasses.replace(LINE, name="the branch of v4.50.3", edge=Edge.RISE)
    page = text(dataclasses.replace(FOUND, searched=line, twin=None))

    assert page.startswith("toy_breaks in bf16 is broken by cccccccccccc")
    assert "it is a change on the branch of v4.50.3 that v4.51.0 lacks" in page


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
    assert clones_for(BisectOptions(case=["toy"])) == ()
