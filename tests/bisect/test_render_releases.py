"""The answers of `bisect` in words."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from factories import BREAKS, case, environment, failed, provenance, seen

from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.releases import ReleaseSearches, Search, searches
from repromatrix.runner.bisect.render_releases import cost, document
from repromatrix.runner.bisect.search import Edge, Sought
from repromatrix.runner.document import write
from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.observation import LOCAL, MERGED
from repromatrix.runner.model.outcomes import Device, Outcome, Precision

if TYPE_CHECKING:
    from repromatrix.runner.bisect.releases import Finding
    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Observation

ENVIRONMENTS = {
    one.name: one
    for one in (
        environment("4.49.0", accelerate="1.4.0"),
        environment("4.50.0", accelerate="1.5.2"),
        environment("4.50.1", accelerate="1.5.2"),
        environment("4.51.0", accelerate="1.5.2"),
    )
}
COMMAND = ("toy_breaks", "--precision", "bf16")
MEASURED = "Measured on CPU, torch 2.13.0+cpu, Python 3.11."


def asking(
    letters: str,
    edge: Edge = Edge.RISE,
    precisions: tuple[Precision, ...] = (Precision.BF16,),
    older: bool = False,  # noqa: FBT001, FBT002
) -> ReleaseSearches:
    """Return searches that are answered from evidence; `n` passes, `y` fails, `-` is not known."""
    of = case(BREAKS, dependencies=["torch", "transformers>=4.50" if older else "transformers"])
    found: list[Search] = []
    known: dict[Cell, Observation] = {}
    for precision in precisions:
        question = CaseQuestion(case=of, workaround="", precision=precision, device=Device.CPU)
        (search,) = searches(question, Sought(edge=edge), ENVIRONMENTS)
        found.append(search)
        for place, letter in enumerate(letters):
            cell = search.cell(place)
            ran = provenance(of, ENVIRONMENTS[cell.environment])
            row = {
                "n": seen(Outcome.PASSES, cell, ran=ran),
                "y": seen(Outcome.FAILS, cell, ran=ran),
                "o": seen(Outcome.FAILS, cell, ran=ran, how=failed("KeyError", "elsewhere")),
            }.get(letter)
            if row is not None:
                known[cell] = row
    return ReleaseSearches(searches=found, known=known)


def text(*findings: Finding) -> str:
    return write(document(findings, COMMAND, ENVIRONMENTS), "text")


def told(*lines: str) -> str:
    return "".join(f"{line}\n" for line in ["toy_breaks, bf16: A toy breaks", *lines, "", MEASURED])


KNOWN = "  0 runs needed: known from this machine's evidence."


def test_what_a_search_along_pairs_lacks_is_told_as_a_command() -> None:
    names = ("4.49.0+peft0.15.2", "4.50.0+peft0.15.2")
    of = case(
        f"environments = {[*names]}\n".replace("'", '"'),
        dependencies=["torch", "transformers", "peft"],
    )
    pairs = {name: environment(name, source=Source.PAIR, peft="0.15.2") for name in names}
    question = CaseQuestion(case=of, workaround="", precision=Precision.BF16, device=Device.CPU)
    (search,) = searches(question, Sought(), pairs)
    row = seen(Outcome.PASSES, search.cell(1), ran=provenance(of, pairs[names[1]]))
    (finding,) = ReleaseSearches(searches=[search], known={row.cell: row}).findings()

    assert cost(finding) == (
        "Pairs are answered from evidence alone. To measure them: nox -s matrix -- --case"
        " toy_breaks --release 4.49.0+peft0.15.2 --precision bf16 --workaround none"
    )


def test_a_case_that_older_releases_cannot_run_says_why() -> None:
    assert text(*asking("yyn", older=True).findings()) == told(
        "  Fails since its first release, 4.50.0; older ones cannot run it: 4.49.0"
        " (needs transformers>=4.50, has 4.49.0). ValueError: it breaks.",
        "  Also seen: fixed in 4.51.0.",
        KNOWN,
    )


def test_older_releases_that_lack_the_same_are_named_together() -> None:
    (finding,) = asking("yyn", older=True).findings()
    versions = [f"4.4{number}.0" for number in range(6)]
    older = {name: f"needs transformers>=4.46, has {name}" for name in versions}
    search = dataclasses.replace(finding.search, older=older)

    assert ("; older ones cannot run it: 4.40.0 to 4.45.0 (needs transformers>=4.46).") in text(
        dataclasses.replace(finding, search=search)
    )


def test_where_nothing_could_be_judged_every_release_says_why() -> None:
    reasons = [f"{name} fails differently (KeyError: elsewhere)" for name in ENVIRONMENTS]

    assert text(*asking("oooo").findings()) == told(
        f"  Undecided: nothing could be judged. {'; '.join(reasons)}.", KNOWN
    )


def test_where_both_ends_pass_the_answer_says_how_many_releases_were_asked() -> None:
    assert text(*asking("nn-n").findings()) == told(
        "  Not reproduced: passes in 4.49.0 to 4.51.0, wherever it was measured (asked 3 of 4"
        " releases). `--all` runs every release, to find a bug that came and went between them.",
        KNOWN,
    )


def test_results_that_disagree_are_named_with_their_sources() -> None:
    (found,) = asking("nyyn").findings()
    row = found.at(1)
    sides = tuple(dataclasses.replace(row, source=source) for source in (LOCAL, MERGED, "2026-09"))
    disputed = dataclasses.replace(row, unstable=True, sides=sides)

    assert "Results disagree about 4.50.0: this machine's evidence, merged evidence and the" in (
        text(dataclasses.replace(found, contested={1: disputed}))
    )
