"""The findings and cases that were drawn at random, to say how many are true."""

import tomllib
from argparse import Namespace
from pathlib import Path
from random import Random

import pytest

from checks import precision
from checks.table import Table
from repromatrix.runner.evidence.swept.triage import load_triage
from repromatrix.runner.git import run_git
from repromatrix.runner.paths import ROOT


def test_a_hundred_findings_were_drawn_and_none_twice() -> None:
    names = precision.drawn()["names"]
    assert len(set(names)) == len(names) == 100


def test_what_was_judged_of_them_is_counted() -> None:
    table = Table("precision")
    precision.check(table, Namespace())
    told = {what: int(figure.split()[0]) for what, figure, _ in table.figures}
    verdicts = {what: number for what, number in told.items() if what.startswith("judged: ")}
    false = sum(verdicts.get(f"judged: {name}", 0) for name in ("artefact", "by design"))

    assert table.passed
    assert sum(verdicts.values()) == 100
    assert told["true"] == 100 - false


def test_what_others_took_the_place_or_name_of_was_drawn() -> None:
    earlier = load_triage(precision.FILE.parent)
    assert earlier.keys() <= {*precision.drawn()["names"]}


def test_the_cases_read_again_are_those_that_the_seed_draws() -> None:
    sample = tomllib.loads(precision.FILE.with_name("cases.toml").read_text(encoding="utf-8"))
    listed = run_git(ROOT, ["ls-tree", "--name-only", sample["of"], "cases/"], seconds=60).out
    if not listed:
        pytest.skip("a shallow clone lacks the commit")
    names = sorted(Path(path).stem for path in listed.split() if path.endswith(".py"))
    drawn = Random(sample["seed"]).sample(names, 30)  # noqa: S311
    assert drawn == [*sample["verdicts"]]
    assert {verdict for verdict, _ in sample["verdicts"].values()} <= {"sound", "weak", "wrong"}
