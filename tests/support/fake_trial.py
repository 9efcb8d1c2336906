"""`runner trial`, with a measurement that reads from the tree what the commit does."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))

from factories import failed, provenance

from repromatrix.runner.bisect import commit_trials
from repromatrix.runner.cli.trial import try_commit
from repromatrix.runner.model.observation import LOCAL, Observation
from repromatrix.runner.model.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from repromatrix.runner.execution.events import Ready, Terms
    from repromatrix.runner.model.case import Case


def measure(ready: Ready, cases: Mapping[str, Case], terms: Terms) -> tuple[Observation, ...]:
    assert terms.jobs == 1
    cell, tree = ready.cells[0], ready.tree
    assert tree
    state = (tree.path / tree.package / "state.txt").read_text()
    if state == "slow":
        time.sleep(0 if (tree.path.parents[5] / "quick").exists() else 60)
        state = "works"
    outcome, how = {
        "works": (Outcome.PASSES, None),
        "breaks": (Outcome.FAILS, failed()),
        "other": (Outcome.FAILS, failed("TypeError", "something else")),
    }[state]
    ran = provenance(cases[cell.case], ready.environment)
    file = f"{tree.package}/__init__.py"
    seen = Observation(
        cell=cell,
        outcome=outcome,
        provenance=dataclasses.replace(ran, imported={tree.package: file}, run=terms.run),
        source=LOCAL,
        failed=how,
    )
    return (seen,)


setattr(commit_trials, "measure", measure)  # noqa: B010 - it is no name that it exports
sys.exit(try_commit(Path(sys.argv[1]), sys.argv[2], Console(stderr=True)))
