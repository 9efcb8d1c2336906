"""Decisions about findings: read, refused where they are wrong."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord, ProbeStatus
from repromatrix.runner.evidence.swept.triage import (
    TriagedFinding,
    TriageVerdict,
    contradictions,
    decided,
    decision_of,
    read_triage,
    unknown_names,
)

if TYPE_CHECKING:
    from pathlib import Path

GOOD = """["broken-1"]
verdict = "by design"
says = "The processor casts."
architectures = ["llama"]
case = "toy"
reports = ["https://a.org/1"]
searched = ["toy bf16"]
"""

TWO = "".join(
    f'[["broken-1"]]\nverdict = "{verdict}"\nsays = "It is."\narchitectures = ["{kind}"]\n'
    for verdict, kind in (("bug", "llama"), ("artefact", "gptj"))
)
BUG = TriagedFinding(name="broken-1", verdict=TriageVerdict.BUG, says="It errs.")
MEANT = TriageVerdict.BY_DESIGN
WHERE = "reports/published/sweep/"


def told(folder: Path, text: str) -> list[str]:
    (folder / "triage.toml").write_text(text)
    return [str(fault) for fault in read_triage(folder)[1]]


def test_a_decision_is_read_by_the_name_of_its_finding(tmp_path: Path) -> None:
    assert read_triage(tmp_path) == ({}, [])
    assert told(tmp_path, GOOD) == []
    (one,) = read_triage(tmp_path)[0]["broken-1"]
    assert (one.name, one.verdict, one.says) == ("broken-1", MEANT, "The processor casts.")
    assert (one.architectures, one.case) == (("llama",), "toy")
    assert (one.reports, one.searched) == (("https://a.org/1",), ("toy bf16",))


def test_every_fault_of_a_decision_is_named(tmp_path: Path) -> None:
    wrong = "[x]\nverdict = 'bad'\nsays = 'no'\nsay = 1\nreports = 'a'\nsearched = [1]\ncase = 1"
    keys, verdicts = (
        "architectures, case, mechanism, reports, says, searched, verdict",
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
    def faults(text: str, had: set[str], *cases: str) -> list[str]:
        told(tmp_path, text)
        some = unknown_names(read_triage(tmp_path)[0], {"broken-1": had}, dict.fromkeys(cases, ""))
        return [str(one).removeprefix(f"{WHERE}triage.toml: broken-1") for one in some]

    assert faults(GOOD, {"llama", "gptj"}, "toy") == []
    assert faults(GOOD, {"gptj"}) == [
        ": architectures: it names llama. It was found in gptj.",
        ": case: there is no case 'toy'.",
    ]
    assert faults(GOOD, set()) == [": no published finding is called so. Take the decision out."]
    twice, unsearched = faults(TWO.replace("gptj", "llama"), {"llama"})
    assert twice.startswith(": architectures: it names none, or the same one in two decisions.")
    assert unsearched == ": no case, report or search. Search for reports: `searched`."


def test_an_architecture_that_no_decision_names_is_undecided(tmp_path: Path) -> None:
    told(tmp_path, TWO)
    triage = read_triage(tmp_path)[0]
    bug, artefact = triage["broken-1"]

    assert decided(triage, "broken-1", ["llama", "gptj"]) == ((bug, artefact), ())
    assert decided(triage, "broken-1", ["gptj:GPTJModel", "opt"]) == ((artefact,), ("opt",))
    assert decided(triage, "broken-2", ["llama"]) == ((), ("llama",))


def test_what_does_not_hold_has_the_decision_about_its_finding() -> None:
    triage = {"broken-b034bf87": (dataclasses.replace(BUG, architectures=("llama",)),)}
    for kind, what in (("llama", "broken-b034bf87: bug"), ("opt", "undecided")):
        key, fails = ProbeKey(kind, "tied"), ProbeStatus.FAILS
        record = ProbeRecord(key=key, status=fails, error="E", message="no", place="a:b")
        assert decision_of(triage, record) == what


def test_cases_and_decisions_are_what_the_table_says_of_their_mechanism(tmp_path: Path) -> None:
    table = '[fft]\nverdict = "bug"\nsays = "No kernel."\ncases = ["fnet", "autoformer"]\n'
    (tmp_path / "mechanisms.toml").write_text(table)
    bug = dataclasses.replace(BUG, case="fnet", mechanism="fft")

    def faults(decision: TriagedFinding, fnet: str = "bug") -> list[str]:
        kinds = {"fnet": fnet, "autoformer": "bug", "toy": "policy"}
        some = contradictions(tmp_path, {"broken-1": (decision,)}, kinds)
        return [str(one).removeprefix(WHERE).removesuffix(" Say the same in both.") for one in some]

    assert faults(bug) == []
    assert faults(bug, fnet="policy") == ["mechanisms.toml: fft: cases: fnet is policy, not bug."]
    for change, what in (
        ({"mechanism": ""}, "bug and mechanism '' are not bug and 'fft'"),
        ({"verdict": MEANT}, "by design and mechanism 'fft' are not bug and 'fft'"),
        ({"case": "toy", "mechanism": ""}, "bug and mechanism '' are not policy and ''"),
        ({"case": "", "mechanism": "ftt"}, "bug and mechanism 'ftt' are not bug and 'ftt'"),
    ):
        assert faults(dataclasses.replace(bug, **change)) == [f"triage.toml: broken-1: {what}."]


def test_an_error_is_new_where_reports_were_looked_for_and_none_was_found() -> None:
    looked = dataclasses.replace(BUG, searched=("toy bf16",))
    known = dataclasses.replace(looked, reports=("https://github.com/a/b/issues/1",))
    meant = dataclasses.replace(looked, verdict=TriageVerdict.INTENDED)

    assert [one.is_new for one in (BUG, looked, known, meant)] == [False, True, False, False]
