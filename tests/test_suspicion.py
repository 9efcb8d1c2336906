"""What wants far more memory than its neighbours is suspected of a regression, and told so."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from factories import case, cell, environment, environments, provenance, seen
from rich.console import Console

from reports.casepage import case_page
from reports.listing import listed
from reports.marks import seen_as
from reports.survey import survey
from runner.engine.answers import Setting, observe
from runner.judging.suspicion import suspect
from runner.judging.verdicts import Judged, judge_all
from runner.model.cell import Source
from runner.model.observation import Memory
from runner.model.outcomes import Outcome, Precision, Verdict
from runner.terminal.surprises import say_suspicions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.model.case import Case
    from runner.model.cell import Environment
    from runner.model.observation import Observation

PASSES, OUT_OF_MEMORY = Outcome.PASSES, Outcome.OUT_OF_MEMORY
NAMES = ("4.49.0", "4.50.0", "4.50.1", "4.51.0", "4.52.0")
LINE = environments(*NAMES)
TOY = case()


def at(
    name: str, peak: int | None, *, of: Case = TOY, limit: int = 4096, **facts: object
) -> Observation:
    """Return a cell that held so much; above the limit it is out of memory, and confirmed."""
    over = peak is not None and peak > limit
    ran = provenance(of, LINE.get(name) or environment(name))
    row = seen(OUT_OF_MEMORY if over else PASSES, cell(name), ran=ran)
    memory = None if peak is None else Memory(peak=peak, limit=limit)
    told = {"memory": memory, "repeats": 3 if over else 1} | facts
    return dataclasses.replace(row, **told)  # type: ignore[arg-type]


def judged(
    *rows: Observation, of: Case = TOY, held: Mapping[str, Environment] = LINE
) -> tuple[Judged, ...]:
    return suspect(judge_all(rows, {of.name: of}, held), {of.name: of}, held)


def told(*rows: Observation, held: Mapping[str, Environment] = LINE) -> dict[str, str]:
    return {
        one.seen.cell.environment: one.suspected.text
        for one in judged(*rows, held=held)
        if one.suspected
    }


SUSPECTED = (
    "suspected regression: above our limit of 4096 MiB in 3 runs, while 4.50.0 needs 310 MiB"
    " and 4.51.0 needs 2000 MiB"
)
AROUND = (at("4.50.0", 310), at("4.50.1", 4097), at("4.51.0", 2000))


def test_what_hits_our_limit_again_and_again_beside_modest_neighbours_is_suspected() -> None:
    assert told(*AROUND) == {"4.50.1": SUSPECTED}


def test_it_stays_unproven_whatever_is_suspected() -> None:
    assert [one.verdict for one in judged(*AROUND)] == [
        Verdict.AS_EXPECTED,
        Verdict.UNPROVEN,
        Verdict.AS_EXPECTED,
    ]


def test_one_neighbour_is_enough_at_the_end_of_the_line_and_gaps_are_stepped_over() -> None:
    expected = "suspected regression: above our limit of 4096 MiB in 3 runs, while 4.49.0 needs 9"

    assert told(at("4.49.0", 9), at("4.52.0", 9000)) == {"4.52.0": f"{expected} MiB"}


def test_neighbours_that_hit_the_limit_themselves_are_stepped_over() -> None:
    found = told(at("4.49.0", 9), at("4.50.0", 5000), at("4.50.1", 5000), at("4.51.0", 10))

    held = {name: text.partition(", while ")[2] for name, text in found.items()}

    assert held == dict.fromkeys(["4.50.0", "4.50.1"], "4.49.0 needs 9 MiB and 4.51.0 needs 10 MiB")


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([at("4.50.1", 4097)], id="no neighbour"),
        pytest.param([at("4.50.0", 2048), at("4.50.1", 4097)], id="half of the limit"),
        pytest.param(
            [at("4.50.0", 10), at("4.50.1", 4097), at("4.51.0", 3000)], id="one side needs much"
        ),
        pytest.param([at("4.50.0", 10), at("4.50.1", 4097, repeats=1)], id="hit once"),
        pytest.param([at("4.50.0", 10), at("4.50.1", 4097, unstable=True)], id="not each time"),
        pytest.param([at("4.50.0", None), at("4.50.1", 4097)], id="nobody looked at its memory"),
        pytest.param(
            [at("4.50.0", 10), at("4.50.1", 900, outcome=OUT_OF_MEMORY, repeats=3)],
            id="the machine's memory",
        ),
        pytest.param(
            [at("4.50.0", 10, outcome=OUT_OF_MEMORY), at("4.50.1", 4097)],
            id="a neighbour that the machine ended",
        ),
    ],
)
def test_otherwise_nothing_is_suspected(rows: list[Observation]) -> None:
    assert told(*rows) == {}


def test_what_is_stale_neither_is_suspected_nor_makes_suspect() -> None:
    old = dataclasses.replace(provenance(), case_digest="old")
    stale = dataclasses.replace(AROUND[1], provenance=old)
    modest = [dataclasses.replace(row, provenance=old) for row in (AROUND[0], AROUND[2])]

    assert told(AROUND[0], stale, AROUND[2]) == {}
    assert told(modest[0], AROUND[1], modest[1]) == {}


def test_releases_follow_on_releases_and_pairs_on_the_versions_of_their_package() -> None:
    toy = case('environments = ["4.50.1+peft0.15.0", "4.50.1+peft0.17.0"]')
    held = {
        **{name: environment(name, peft="0.16.0") for name in NAMES},
        **{
            f"4.50.1+peft{version}": environment(
                f"4.50.1+peft{version}", source=Source.PAIR, transformers="4.50.1", peft=version
            )
            for version in ("0.15.0", "0.17.0")
        },
    }

    def of(name: str, peak: int) -> Observation:
        return dataclasses.replace(at(name, peak), provenance=provenance(toy, held[name]))

    rows = [of("4.50.0", 10), of("4.50.1", 20), of("4.50.1+peft0.17.0", 9000)]
    found = judged(*rows, of=toy, held=held)

    assert [one.suspected.neighbours if one.suspected else () for one in found] == [
        (),
        (),
        (("4.50.1", 20),),
    ]


def test_a_suspicion_is_told_at_the_end_of_a_run_in_results_and_on_the_page_of_the_case() -> None:
    rows = judged(*AROUND)
    console = Console(file=io.StringIO(), width=400)
    say_suspicions(rows, console)
    columns, lines = listed(rows, NAMES, wide=True)
    wide = [dict(zip(columns, line, strict=True)) for line in lines]
    page = case_page(survey({TOY.name: TOY}, list(LINE.values()), rows), TOY)

    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == f"  toy_breaks bf16 on 4.50.1: {SUSPECTED}\n"
    assert [(line["peak"], line["suspected"]) for line in wide] == [
        (310, ""),
        (4097, SUSPECTED),
        (2000, ""),
    ]
    assert page.suspected == (f"bf16 on 4.50.1: {SUSPECTED}",)
    assert seen_as(rows[1], Precision.BF16).text == f"out of memory: {SUSPECTED}"


@pytest.mark.parametrize(
    ("answer", "memory", "reason"),
    [
        ({"outcome": "passes"}, None, ""),
        ({"outcome": "passes", "peak": 7, "limit": 9}, Memory(peak=7, limit=9), ""),
        (
            {"outcome": "out-of-memory", "peak": 10, "limit": 9},
            Memory(peak=10, limit=9),
            "above our limit of 9 MiB",
        ),
        ({"outcome": "out-of-memory", "peak": 9, "limit": 9}, Memory(peak=9, limit=9), ""),
    ],
)
def test_the_memory_of_a_cell_is_kept_and_our_limit_is_told_from_the_machine_s(
    answer: dict[str, object], memory: Memory | None, reason: str
) -> None:
    setting = Setting(
        environment_digest="",
        packages={},
        python="",
        torch_build="",
        hardware="",
        protocol=1,
        run="",
        folder=Path("/nowhere"),
        foreign_files=False,
    )
    row = observe(cell(), TOY.digest, answer, setting)

    assert (row.memory, row.reason) == (memory, reason)
