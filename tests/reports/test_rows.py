"""The table that `results` prints: its columns, its order, and what stands in a row."""

from __future__ import annotations

from dataclasses import replace

from repromatrix.reports.exports.rows import COLUMNS, as_csv, listed, tabulate
from repromatrix.reports.marks import Mark, seen_as
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import LOCAL, Failed, MemoryUse, Observation, Provenance
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision, Verdict

ORDER = ("4.49.0", "4.50.0", "4.100.0", "main")
RAN_ON = Provenance(
    case_digest="c",
    environment_digest="e",
    packages={"transformers": "4.50.0", "accelerate": "1.5.2", "peft": "0.15.0"},
    python="3.11.7",
    torch_build="2.13.0+cpu",
    hardware="a CPU",
    protocol=1,
    run="r",
)


def cell(
    case: str = "alpha",
    workaround: str = "",
    release: str = "4.50.0",
    precision: Precision = Precision.BF16,
    device: Device = Device.CPU,
) -> Cell:
    return Cell(case, workaround, release, precision, device)


def judged(
    where: Cell,
    outcome: Outcome = Outcome.PASSES,
    verdict: Verdict = Verdict.AS_EXPECTED,
    failed: Failed | None = None,
) -> Judged:
    seen = Observation(
        cell=where, outcome=outcome, provenance=RAN_ON, source=LOCAL, failed=failed, seconds=0.25
    )
    return Judged(seen=seen, entry=None, verdict=verdict, stale=False)


def test_a_wide_table_adds_the_flags_behind_the_same_columns() -> None:
    expected = [*("unstable", "stale", "simulated", "repeats", "source", "reason", "signature")]
    expected += ["disputed", "peak", "where", "scope"]

    assert [*COLUMNS, *expected] == list(tabulate([], ORDER, wide=True).columns)


def test_a_row_says_what_happened_and_on_what() -> None:
    failed = Failed(error_class="TypeError", message="no\nmore", signature="TypeError: no more")
    row = judged(cell(), Outcome.FAILS, Verdict.REGRESSED, failed)
    row = replace(row, stale=True, seen=replace(row.seen, exercised=Exercised.YES, reason="why"))
    row = replace(row, seen=replace(row.seen, memory=MemoryUse(peak=310, limit=4096)))
    printed = as_csv(
        *listed([row], ORDER, wide=True, simulated={"alpha"}, scopes={"alpha": "every precision"})
    )
    printed = printed.splitlines()[1]

    assert printed == (
        "alpha,,4.50.0,bf16,cpu,fails,regressed,TypeError: no,yes,4.50.0,1.5.2,0.15.0,2.13.0+cpu,"
        "0.25,False,True,True,1,this machine,why,TypeError: no more,,310,,"
        "every precision"
    )


def test_rows_stand_in_the_order_of_the_environments_and_not_of_their_letters() -> None:
    cells = [
        cell(),
        cell(device=Device.CUDA),
        cell(precision=Precision.FP16),
        cell(release="4.100.0", precision=Precision.FP32),
        cell(release="main", precision=Precision.FP32),
        cell(workaround="other", release="4.49.0"),
        cell(case="beta", release="4.49.0"),
    ]
    frame = tabulate([judged(where) for where in reversed(cells)], ORDER)
    found = frame[["case", "workaround", "release", "precision", "device"]]

    assert [tuple(where) for where in cells] == list(found.itertuples(index=False, name=None))


def test_a_disputed_cell_is_told_with_all_its_sides() -> None:
    row = judged(cell(), Outcome.PASSES, Verdict.UNPROVEN)
    other = replace(row.seen, outcome=Outcome.DECLINES, provenance=replace(RAN_ON, hardware="far"))
    row = replace(row, seen=replace(row.seen, unstable=True, sides=(row.seen, other)))
    [told] = tabulate([row], ORDER, wide=True)["disputed"]
    seen = seen_as(row, Precision.BF16)

    assert told == (
        "passes (here, a CPU, torch 2.13.0+cpu); declines (here, far, torch 2.13.0+cpu)"
    )
    assert (seen.mark, seen.text, seen.words) == (
        *(Mark.UNSTABLE, f"disputed between machines: {told}", "disputed"),
    )


def test_the_rows_are_written_as_pandas_would_write_them() -> None:
    failed = Failed(error_class="KeyError", message='a, "b"\nc', signature="s")
    rows = [
        judged(cell()),
        judged(cell(release="main"), Outcome.FAILS, Verdict.REGRESSED, failed),
        replace(judged(cell(release="4.49.0")), stale=True),
    ]
    rows += [replace(rows[0], seen=replace(rows[0].seen, cell=cell("beta"), seconds=None))]
    for wide in (False, True):
        frame = tabulate(rows, ORDER, wide=wide)
        expected = frame.to_csv(index=False, lineterminator="\n")

        assert expected == as_csv(*listed(rows, ORDER, wide=wide))


def test_no_csv_holds_a_formula_of_a_spreadsheet() -> None:
    rows = [("=1+1", 2, -0.5), ("fine", None, 1.0)]

    assert as_csv(("error", "repeats", "value"), rows) == (
        "error,repeats,value\n'=1+1,2,-0.5\nfine,,1.0\n"
    )
