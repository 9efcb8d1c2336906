"""What CI is told: SARIF for code scanning, and the annotations of a workflow."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from typing import TYPE_CHECKING

import jsonschema  # type: ignore[import-untyped]
import pytest
from factories import BREAKS, case_text, environments, installed, provenance, seen
from factories import cell as cell_of

from repromatrix.runner import project
from repromatrix.runner.audit.hits import audit
from repromatrix.runner.audit.known import known
from repromatrix.runner.audit.questions import AuditQuestion
from repromatrix.runner.audit.render import document
from repromatrix.runner.audit.render_ci import _rule, github, sarif, workflow_command
from repromatrix.runner.audit.settings import (
    AuditSettings,
    AuditTerms,
    FailOn,
    IgnoredCase,
    UsedSettings,
)
from repromatrix.runner.document import write
from repromatrix.runner.evidence.snapshot import Snapshot
from repromatrix.runner.model.case import read_case
from repromatrix.runner.model.outcomes import Outcome, Precision
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.audit.hits import Audit

BF16 = AuditQuestion(precisions=(Precision.BF16,))
USUAL = AuditTerms()
SNAPSHOT = Snapshot(name="2026-11-24-b", date=dt.date(2026, 11, 24), age=3)
ENDED = (
    "Ignored until 2026-11-30, and counts again: toy_* (We: wait, really.);"
    " see pyproject.toml: tool.repromatrix.ignore[0]."
)
SCHEMA = json.loads((ROOT / "tests" / "fixtures" / "sarif_schema.json").read_text())


def refuse_invalid(log: object) -> None:
    """Raise where a log is not as SARIF has it, or an address in it is none."""
    jsonschema.validate(log, SCHEMA, format_checker=jsonschema.FormatChecker())


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a list in a folder of the repository that we are in."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "a b").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b" / "pins,1.txt").write_text("accelerate==1.6.0\ntransformers==4.50.0\n")
    return "a b/pins,1.txt"


def found(lock: str, count: int = 1) -> Audit:
    """Return an audit in which so many cases fail."""
    every_case = {}
    for number in range(count):
        name = f"toy_{number:02}"
        every_case[name] = read_case(case_text(BREAKS), f"cases/{name}.py")
    held = environments("4.49.0", "4.50.0", "4.51.0")
    outcomes = {"4.50.0": Outcome.FAILS}
    rows = [
        seen(
            outcomes.get(release, Outcome.PASSES),
            cell_of(release, name=name),
            ran=provenance(of, held[release]),
        )
        for name, of in every_case.items()
        for release in held
    ]
    mine = dataclasses.replace(installed("4.50.0"), what=lock)
    evidence = dataclasses.replace(known(every_case, held, rows), snapshot=SNAPSHOT)
    return audit(mine, evidence, BF16)


def expired() -> AuditTerms:
    """Return terms by which nothing derived fails, with an exception that has ended."""
    ended = IgnoredCase(case="toy_*", reason="We: wait,\nreally.", until=dt.date(2026, 11, 30))
    settings = AuditSettings(ignore=(ended,))
    used = UsedSettings(file="pyproject.toml", settings=settings, today=dt.date(2026, 12, 1))
    return AuditTerms(fail_on=(FailOn.DERIVED,), used=used, page=lambda name: f"https://s/{name}")


def test_what_fails_no_build_is_a_warning_and_an_exception_that_ended_is_told(lock: str) -> None:
    lines = github(found(lock), expired()).splitlines()

    assert lines[0].startswith("::warning file=a b/pins%2C1.txt,line=2,")
    assert lines[0].endswith("%0Ahttps://s/toy_00")
    assert lines[1] == (f"::notice title=Settings::{ENDED}")


def test_what_github_would_leave_out_is_named_in_the_last_annotation(lock: str) -> None:
    ten, twelve = (
        [line for line in github(found(lock, count), USUAL).splitlines() if line.startswith("::")]
        for count in (10, 12)
    )

    assert (len(ten), len(twelve)) == (10, 10)
    assert "title=toy_09 " in ten[-1]
    assert twelve[-1] == (
        "::error file=a b/pins%2C1.txt,line=2,title=3 more known bugs::"
        "toy_09 (bf16, measured)%0Atoy_10 (bf16, measured)%0Atoy_11 (bf16, measured)"
    )


def test_nothing_of_a_message_is_taken_for_a_command() -> None:
    line = workflow_command("error", "50%\r\n::error::x, y: z", "a,b:c%\n::d")

    assert line == "::error title=a%2Cb%3Ac%25%0A%3A%3Ad::50%25%0D%0A::error::x, y: z"


def test_a_log_is_valid_and_has_a_rule_for_each_case_that_fails(lock: str) -> None:
    log = json.loads(sarif(found(lock, 2), USUAL))
    refuse_invalid(log)
    (run,) = log["runs"]
    first, second = run["results"]
    rules = run["tool"]["driver"]["rules"]
    told = {"name": "2026-11-24-b", "date": "2026-11-24", "age-days": 3}

    assert run["properties"] == {"snapshot": told}
    assert [rule["id"] for rule in rules] == ["toy_00", "toy_01"]
    assert [rules[one["ruleIndex"]]["id"] for one in (first, second)] == ["toy_00", "toy_01"]
    assert rules[0]["help"]["text"] == (
        "A toy must not break. It breaks because it is a toy.\n\n"
        "It can hit you with forward; you see error.\n\nReports:\n- https://example.org/1"
    )
    assert rules[0]["helpUri"] == "https://example.org/1"
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%20b/pins%2C1.txt"
    assert place["region"] == {"startLine": 2}
    assert first["level"] == "error"
    assert first["message"]["text"].startswith("toy_00 (bf16, measured): A toy breaks\nValueError")
    prints = [one["partialFingerprints"]["primaryLocationLineHash"] for one in (first, second)]
    assert prints[0] != prints[1]


def test_the_rule_of_every_case_is_valid() -> None:
    loaded = project.load(Paths(), code=False)
    rules = [_rule(one, USUAL) for one in loaded.cases.values()]

    item = {"$ref": "#/definitions/reportingDescriptor"}
    jsonschema.validate(rules, {**SCHEMA, "type": "array", "items": item})


def test_a_log_says_what_fails_no_build_and_what_counts_again(lock: str) -> None:
    log = json.loads(sarif(found(lock), expired()))
    refuse_invalid(log)
    (run,) = log["runs"]

    assert run["results"][0]["level"] == "warning"
    assert run["tool"]["driver"]["rules"][0]["helpUri"] == "https://s/toy_00"
    (note,) = run["invocations"][0]["toolConfigurationNotifications"]
    assert note == {"level": "note", "message": {"text": ENDED}}


def test_what_is_no_file_of_the_repository_is_named_in_a_log(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    outside = tmp_path_factory.mktemp("other") / "pins.txt"
    outside.write_text("transformers==4.50.0\n")
    nowhere, there = (
        json.loads(sarif(found(at), USUAL)) for at in ("standard input", str(outside))
    )
    for log in (nowhere, there):
        refuse_invalid(log)

    assert nowhere["runs"][0]["results"][0]["locations"] == [
        {"logicalLocations": [{"fullyQualifiedName": "standard input"}]}
    ]
    place = there["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": outside.as_uri()}


def test_an_answer_to_paste_links_cases_and_names_the_line(lock: str) -> None:
    pasted = write(document(found(lock), expired(), full=True), "markdown")

    assert "\n**[`toy_00`](https://s/toy_00): bf16, measured" in pasted
    assert "\n- pinned at a b/pins,1.txt:2\n" in pasted
