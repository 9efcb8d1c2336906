"""Count how many of 100 findings of the sweep, drawn at random, are true.

`precision.toml` keeps the seed and the sample. Decisions are in
`reports/published/sweep/triage.toml` or, for findings that later sweeps replaced or renamed, in
`triage.toml` here.
"""

from __future__ import annotations

import argparse
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from checks.table import Table
from repromatrix.runner.evidence.swept.published import FOLDER
from repromatrix.runner.evidence.swept.triage import load_triage
from repromatrix.runner.paths import Paths

FILE = Path(__file__).with_name("precision.toml")


def drawn() -> dict[str, Any]:
    """Return what was drawn: `seed`, `of` (how many names there were) and `names`."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def check(table: Table, _options: argparse.Namespace) -> None:
    """Print what was judged of the findings that were drawn."""
    sample = drawn()
    decided = {**load_triage(Paths().published / FOLDER), **load_triage(FILE.parent)}
    judged = [decided[name][0] for name in sample["names"] if name in decided]
    true = sum(one.verdict.is_true for one in judged)
    drawn_from = f"of {sample['of']}, seed {sample['seed']}"
    lacking = len(sample["names"]) - len(judged)
    table.count("findings drawn", len(sample["names"]), "not judged", lacking, drawn_from)
    for verdict, count in Counter(one.verdict for one in judged).most_common():
        table.row(f"judged: {verdict}", count, "findings")
    table.row("true", true, "findings", "the library changed or errs")
