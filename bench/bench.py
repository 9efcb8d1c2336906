"""`nox -s bench`: every figure that the documents give, measured; the tables in
`docs/performance.md` are written anew. Machines are shared and noisy: what counts are ratios.
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

import against
import answers
import calibration
import cluster
import commits
import corpus
import first_hour
import identity
import multiples
import phases
import precision
import recall
import replay
import resources
import scale
import searches
import sweeping
import website
import whole
from sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = {
    "first-hour": first_hour.measure,
    "phases": phases.measure,
    "corpus": corpus.measure,
    "all": whole.measure,
    "multiples": multiples.measure,
    "identity": identity.measure,
    "resources": resources.measure,
    "searches": searches.measure,
    "commits": commits.measure,
    "answers": answers.measure,
    "site": website.measure,
    "scale": scale.measure,
    "precision": precision.measure,
    "recall": recall.measure,
    "replay": replay.measure,
    "sweep": sweeping.measure,
    "simulation": calibration.measure,
    "ray": cluster.measure,
}


def main() -> None:
    """Measure what was asked for, all where nothing was."""
    arguments = argparse.ArgumentParser(description=__doc__)
    for name, measure in PARTS.items():
        module = sys.modules[measure.__module__]
        about = (module.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        arguments.add_argument(f"--{name}", action="store_true", help=about)
    arguments.add_argument(
        "--release", default="", help="of --corpus, --all and --ray: a comma list"
    )
    told = "another checkout, which --corpus and --all are also run on"
    arguments.add_argument("--against", type=Path, metavar="PATH", help=told)
    told = "of --commits: a clone in which to count for what is published; may be repeated"
    arguments.add_argument("--repo", type=Path, action="append", default=[], help=told)
    told = "of --first-hour: also run the linters and the tests in the fresh clone"
    arguments.add_argument("--readme", action="store_true", help=told)
    chosen = vars(arguments.parse_args())
    some = [name for name in PARTS if chosen[name.replace("-", "_")]]
    if chosen["against"] and some not in (["corpus"], ["all"]):
        arguments.error("--against belongs to --corpus or --all alone")
    for name in some or PARTS:
        measure: Callable[..., None] = PARTS[name]
        title = name
        if name == "all":
            measure = functools.partial(measure, other=chosen["against"])
        elif chosen["against"]:
            measure, title = functools.partial(against.measure, other=chosen["against"]), "against"
        if name in {"corpus", "all", "ray"} and chosen["release"]:
            measure = functools.partial(measure, releases=chosen["release"].split(","))
        if name == "first-hour":
            measure = functools.partial(measure, readme=chosen["readme"])
        if name == "commits":
            measure = functools.partial(measure, clones=chosen["repo"])
        sheet = Sheet(title)
        print(f"# {title}", flush=True)
        measure(sheet.row)
        if sheet.write():
            print("written into docs/performance.md")


if __name__ == "__main__":
    main()
