"""A tenth of the published cells, drawn at random, measured again; what denies them is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drills import truth
from repromatrix.runner import project
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from drills.tally import Tally


def drill(tally: Tally) -> None:
    """Run them in every environment that they were published of."""
    truth.count(tally, truth.again(project.load(Paths())))
