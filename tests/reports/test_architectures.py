"""The pages of the sweep: what stands in them, and where they are linked from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from example_site import FINDINGS, HISTORY
from one_case import ENVIRONMENTS, a_case, judged
from swept import line, record

from repromatrix.reports.build import render
from repromatrix.reports.pages.architecture import architectures, architectures_page
from repromatrix.reports.pages.findings import findings_page
from repromatrix.runner.evidence.swept.records import ProbeStatus

if TYPE_CHECKING:
    from pathlib import Path

HOLDS, FAILS, SKIPPED = ProbeStatus.HOLDS, ProbeStatus.FAILS, ProbeStatus.SKIPPED


def test_a_release_on_which_some_were_run_is_no_column_of_the_overview() -> None:
    some = HISTORY.releases["4.50.0"]._replace(chosen=("llama",))
    known = dataclasses.replace(HISTORY, releases={**HISTORY.releases, "4.50.0": some})
    page = architectures_page(known, found := architectures(known, {}), ())

    assert (page["releases"], page["between"]) == (("4.49.0", "4.51.0"), 1)
    assert [one.width for one in found[1].stretches] == [1, 1]
    assert found[1].releases == ("4.49.0", "4.50.0", "4.51.0")
    assert [one.run for one in findings_page(known, FINDINGS).releases] == [0, 1]


def test_a_site_without_a_sweep_says_so_and_has_no_line_on_its_first_page(tmp_path: Path) -> None:
    case = a_case()
    render({case.name: case}, ENVIRONMENTS, judged(), tmp_path)

    assert b"Nothing has been swept yet" in (tmp_path / "architectures.html").read_bytes()
    assert b'class="swept"' not in (tmp_path / "index.html").read_bytes()


def test_a_cell_of_several_releases_tells_the_numbers_of_each_part() -> None:
    one = record("llama", "long-padded", ProbeStatus.DIFFERS)
    far, near = (dataclasses.replace(one, value=size, why=f"error {size}") for size in (1.0, 0.04))
    (found,) = architectures(line([far], [near], [near]), {})[0].bad

    told = "differs: error 1.0 (4.49.0); error 0.04 (4.50.0 to 4.51.0)"
    assert [(one.width, one.told) for one in found.stretches] == [(3, told)]
    assert [one[1] for one in found.messages] == ["error 1.0", "error 0.04"]


def test_findings_of_a_release_are_counted_apart_from_its_architectures() -> None:
    two = [FINDINGS[0], FINDINGS[0]._replace(name="fixed-9", kind="fixed")]
    step = findings_page(HISTORY, two).releases[1]

    assert (step.changed, step.says) == (1, "2 findings: 1 broken, 1 fixed")
