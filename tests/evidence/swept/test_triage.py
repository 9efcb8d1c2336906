"""Decisions about findings: read, refused where they are wrong."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from repromatrix.runner.evidence.swept.triage import (
    TriagedFinding,
    TriageVerdict,
    read_triage,
    unknown_names,
)

if TYPE_CHECKING:
    from pathlib import Path

GOOD = """["broken-1"]
verdict = "by design"
says = "The processor casts."
case = "toy"
reports = ["https://github.com/huggingface/transformers/issues/1"]
searched = ["toy bf16"]
"""


def told(folder: Path, text: str) -> list[str]:
    (folder / "triage.toml").write_text(text)
    return [str(fault) for fault in read_triage(folder)[1]]


def test_a_decision_is_read_by_the_name_of_its_finding(tmp_path: Path) -> None:
    assert read_triage(tmp_path) == ({}, [])
    assert told(tmp_path, GOOD) == []
    assert read_triage(tmp_path)[0] == {
        "broken-1": TriagedFinding(
            name="broken-1",
            verdict=TriageVerdict.BY_DESIGN,
            says="The processor casts.",
            case="toy",
            reports=("https://github.com/huggingface/transformers/issues/1",),
            searched=("toy bf16",),
        )
    }


def test_every_fault_of_a_decision_is_named(tmp_path: Path) -> None:
    wrong = "[x]\nverdict = 'bad'\nsays = 'no'\nsay = 1\nreports = 'a'\nsearched = [1]\ncase = 1"
    keys, verdicts = (
        "case, reports, says, searched, verdict",
        "bug, regression, intended, by design, artefact",
    )

    assert [
        one.removeprefix("reports/published/sweep/triage.toml: x: ")
        for one in told(tmp_path, wrong)
    ] == [
        f"'say' is no key of a decision. Keys: {keys}.",
        f"verdict: invalid value 'bad'; expected {verdicts}.",
        "says: it is no sentence. Say why, and end with a full stop.",
        "reports: it is no list of addresses.",
        "searched: it is no list of queries.",
        "case: it is no name.",
    ]
    assert told(tmp_path, "x = 1") == [
        "reports/published/sweep/triage.toml: x: it is no table. Write [NAME] and its keys below."
    ]
    assert told(tmp_path, "[x")[0].startswith("reports/published/sweep/triage.toml: invalid TOML: ")


def test_a_decision_about_nothing_is_refused(tmp_path: Path) -> None:
    told(tmp_path, GOOD)
    triage = read_triage(tmp_path)[0]

    assert [*unknown_names(triage, {"broken-1"}, {"toy"})] == []
    assert len([*unknown_names(triage, {"broken-2"}, {"other"})]) == 2


def test_an_error_is_new_where_reports_were_looked_for_and_none_was_found() -> None:
    bug = TriagedFinding(name="broken-1", verdict=TriageVerdict.BUG, says="It errs.")
    looked = dataclasses.replace(bug, searched=("toy bf16",))
    known = dataclasses.replace(looked, reports=("https://github.com/a/b/issues/1",))
    meant = dataclasses.replace(looked, verdict=TriageVerdict.INTENDED)

    assert [one.is_new for one in (bug, looked, known, meant)] == [False, True, False, False]
    assert [one.cause for one in (bug, dataclasses.replace(bug, case="toy"))] == ["It errs.", "toy"]
