"""`blame` from its options to its page and exit code, on published evidence and on real builds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from repromatrix.runner.cli.blame import BlameOptions, find
from repromatrix.runner.errors import ExitCode

if TYPE_CHECKING:
    from repromatrix.runner.paths import Paths

CACHE = "paligemma2_trainer_eval"
MERGE = "peft_dora_merge"


def asking(case: str, good: str, bad: str, **more: Any) -> BlameOptions:  # noqa: ANN401 - any option
    options: dict[str, Any] = {"precision": "bf16", "format": "json"} | more
    return BlameOptions(case=case, good=good, bad=bad, **options)


class Asked:
    """Asks `blame` with a store of its own, and reads what it prints."""

    def __init__(self, places: Paths, capsys: pytest.CaptureFixture[str], console: Console) -> None:
        self.places = places
        self.capsys = capsys
        self.console = console

    def __call__(self, options: BlameOptions) -> tuple[ExitCode, dict[str, Any]]:
        code = find(self.places, options, self.console)
        return code, json.loads(self.capsys.readouterr().out)


@pytest.fixture
def ask(places: Paths, capsys: pytest.CaptureFixture[str]) -> Asked:
    return Asked(places, capsys, Console(stderr=True))


def trials(found: dict[str, Any]) -> list[tuple[str, str, str, bool]]:
    return [
        (one["environment"], one["answer"], one["outcome"], one["known"]) for one in found["trials"]
    ]


def test_a_pair_and_its_base_are_answered_from_evidence(ask: Asked) -> None:
    code, found = ask(asking(MERGE, "4.53.3", "4.53.3+peft0.15.2"))

    assert code is ExitCode.AS_EXPECTED
    assert (found["breaks"], found["heals"]) == (["peft"], ["peft"])
    assert trials(found) == [
        ("4.53.3", "good", "passes", True),
        ("4.53.3+peft0.15.2", "bad", "fails", True),
    ]
    assert found["answer"] == (
        "peft alone: 4.53.3+peft0.15.2 with peft 0.16.0 and nothing else changed passes;"
        " 4.53.3 with peft 0.15.2 fails."
    )


@pytest.mark.parametrize(
    ("good", "bad", "expected", "ending"),
    [
        ("4.50.3", "4.51.0", ExitCode.FAILS_ON_BOTH_SIDES, "good-is-bad"),
        ("4.51.0", "4.51.0", ExitCode.NOT_REPRODUCED, "bad-is-good"),
    ],
)
def test_ends_that_do_not_differ_as_said_have_their_exit_codes(
    ask: Asked, good: str, bad: str, expected: ExitCode, ending: str
) -> None:
    code, found = ask(asking(CACHE, good, bad))

    assert (code, found["ending"]) == (expected, ending)
    assert all(one["known"] for one in found["trials"])


def test_a_case_with_extras_is_asked_about_where_they_are(ask: Asked) -> None:
    code, found = ask(asking("rt_detr_matcher_infeasible", "5.0.0", "5.17.0", precision="fp16"))

    assert code is ExitCode.FAILS_ON_BOTH_SIDES
    assert (found["good"], found["bad"]) == ("5.0.0+pillow+scipy", "5.17.0+pillow+scipy")


@pytest.mark.builds
def test_the_cache_that_transformers_healed_is_blamed_on_it_alone(ask: Asked) -> None:
    options = asking(CACHE, "4.51.0", "4.50.3")
    (code, first), (again, second) = (ask(options) for _ in range(2))

    assert (code, again) == (ExitCode.AS_EXPECTED, ExitCode.AS_EXPECTED)
    assert trials(first) == [
        ("4.51.0", "good", "passes", True),
        ("4.50.3", "bad", "fails", True),
        ("4.51.0+transformers4.50.3", "bad", "fails", False),
        ("4.50.3+transformers4.51.0", "good", "passes", False),
    ]
    assert trials(second) == [(*trial[:3], True) for trial in trials(first)]


@pytest.mark.whole
@pytest.mark.builds
def test_a_merge_that_peft_healed_is_blamed_on_peft_among_ten_changes(ask: Asked) -> None:
    code, found = ask(asking(MERGE, "4.53.0", "4.52.4"))

    assert code is ExitCode.AS_EXPECTED
    assert len(found["changes"]) == 10
    assert (found["breaks"], found["heals"]) == (["peft"], ["peft"])
    assert len(found["trials"]) == 4


@pytest.mark.whole
@pytest.mark.builds
def test_packages_that_need_each_other_are_not_told_apart(ask: Asked) -> None:
    code, found = ask(asking("mamba2_trainer_eval", "5.0.0", "4.57.6"))

    assert (code, found["ending"]) == (ExitCode.UNDECIDED, "undecided")
    assert found["breaks"] == ["transformers", "huggingface-hub"]
    newer = "cannot be resolved: transformers==5.0.0 depends on huggingface-hub>=1.3.0,<2.0"
    older = "cannot be resolved: transformers==4.57.6 depends on huggingface-hub>=0.34.0,<1.0"
    newer += " and this has huggingface-hub==0.36.0"
    older += " and this has huggingface-hub==1.3.7"
    reasons = [one["reason"] for one in found["trials"] if one["answer"] == "unknown"]
    assert reasons == [older, newer, newer, older]
    assert "-anyio" in found["trials"][3]["along"]
