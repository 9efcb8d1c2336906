"""Count how many of 100 findings of the sweep, drawn at random, are true.

`precision.toml` keeps the seed and what was drawn. What was judged of each stands in
`reports/published/sweep/triage.toml`; in `triage.toml` here, where releases between theirs were
swept since, so that others have taken their place or their name.
"""

from __future__ import annotations

import argparse
import random
import tomllib
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from checks.table import Table
from repromatrix.runner import project
from repromatrix.runner.evidence.swept.published import (
    BAD_IN_16_BIT,
    BAD_IN_FP32,
    FOLDER,
    read_findings,
)
from repromatrix.runner.evidence.swept.triage import load_triage
from repromatrix.runner.paths import Paths

FILE = Path(__file__).with_name("precision.toml")


def draw(names: Collection[str], seed: int, count: int) -> list[str]:
    """Return some of the names of findings, at random."""
    return sorted(random.Random(seed).sample(sorted(names), count))


def drawn() -> dict[str, Any]:
    """Return what was drawn: `seed`, `of` (how many names there were) and `names`."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def check(table: Table, _options: argparse.Namespace) -> None:
    """Print what was judged of the findings that were drawn."""
    sample, triage = drawn(), load_triage(Paths().published / FOLDER)
    earlier = load_triage(FILE.parent)
    decided = {**triage, **earlier}
    judged = [decided[name] for name in sample["names"] if name in decided]
    true = sum(one.verdict.is_true for one in judged)
    drawn_from = f"of {sample['of']}, seed {sample['seed']}"
    lacking = len(sample["names"]) - len(judged)
    table.count("findings drawn", len(sample["names"]), "not judged", lacking, drawn_from)
    for verdict, count in Counter(one.verdict for one in judged).most_common():
        table.row(f"judged: {verdict}", count, "findings")
    table.row("true", true, "findings", "the library changed or errs")
    new = [one for one in triage.values() if one.is_new]
    bad = {BAD_IN_16_BIT, BAD_IN_FP32}
    live = {one.name for one in read_findings(Paths().published) if one.kind in bad}
    table.row("errors of which no report was found", len({one.cause for one in new}), "causes")
    still = {one.cause for one in new if one.name in live}
    table.row("of these, on the newest release", len(still), "causes")
    cases = project.load(Paths()).cases.values()
    swept = {case.stem for case in cases if case.block.found_by == "sweep"}
    told = {one.case for one in triage.values()}
    table.row("cases that came from findings", len(swept & told), "cases")
