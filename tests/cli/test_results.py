"""Failing ranges, with the commits that broke and fixed them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import small_checkout
from factories import case_text
from rich.console import Console
from small_checkout import Toy

from repromatrix.runner.cli.results import ResultsOptions, print_cells
from repromatrix.runner.evidence import commits
from repromatrix.runner.evidence.commits import PinnedCommit

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_range_ends_with_the_commits_that_were_measured_to_break_and_to_fix_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = small_checkout.checkout(tmp_path)
    Toy(places, case_text()).measured("+--+-+")
    variant = ("toy_breaks", "", "bf16", "cpu")
    for change, before, at, sha in (
        ("break", "4.49.0", "4.50.0", "a"),
        ("fix", "4.50.1", "4.50.2", "b"),
        ("fix", "4.50.3", "4.51.0", ""),
    ):
        commits.keep(
            places, PinnedCommit(*variant, change, before, at, "transformers", commit=sha * 40)
        )

    broke, fixed = f"transformers@{'a' * 40}", f"transformers@{'b' * 40}"
    print_cells(places, ResultsOptions(ranges=True), Console(quiet=True))

    assert capsys.readouterr().out.splitlines() == [
        "case,workaround,precision,device,range,broken-by,fixed-by",
        f'toy_breaks,,bf16,cpu,"4.50.0 to 4.50.1, fixed in 4.50.2",{broke},{fixed}',
        'toy_breaks,,bf16,cpu,"4.50.3, fixed in 4.51.0",,',
    ]
