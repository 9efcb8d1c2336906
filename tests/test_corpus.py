"""The corpus as a whole: its breadth, its table of mechanisms, its proof."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest
from packaging.version import Version

import repromatrix
from repromatrix.reports.exports import osv
from repromatrix.reports.site import Published
from repromatrix.reports.view import survey
from repromatrix.runner import project, site
from repromatrix.runner.cli.check import _judged
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.published import read_publications
from repromatrix.runner.judging.lint import crosses, lacking
from repromatrix.runner.judging.workarounds import refuted, snippets
from repromatrix.runner.model.case import CaseKind, stem_of
from repromatrix.runner.model.environment_name import under_torch
from repromatrix.runner.model.outcomes import Device, Precision, Reading
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from repromatrix.reports.view import Survey
    from repromatrix.runner.judging.verdicts import Judged
    from repromatrix.runner.project import Project

AREAS = {
    "attention-mask",
    "audio-tower",
    "autocast",
    "generation",
    "kv-cache",
    "loading",
    "moe-routing",
    "multimodal-merge",
    "normalisation",
    "overflow",
    "peft",
    "rotary-embedding",
    "state-space",
    "trainer",
    "vision-tower",
}


THREAD = re.compile(r"https://github.com/([^/]+/[^/]+)/(?:issues|pull)/(\d+)")


@pytest.fixture(scope="module")
def corpus() -> Project:
    return project.load(Paths())


@pytest.fixture(scope="module")
def judged(corpus: Project) -> Mapping[str, Sequence[Judged]]:
    return _judged(corpus)


def _mechanisms() -> dict[str, list[str]]:
    table, _, _ = (ROOT / "docs/corpus.md").read_text().partition("\n## ")
    rows = re.findall(r"(?m)^\| ([A-Z].+) \| (.+) \|$", table)
    return {mechanism: cases.split(", ") for mechanism, cases in rows}


def test_every_case_has_one_mechanism_and_no_mechanism_more_than_three_new_cases(
    corpus: Project,
) -> None:
    named = Counter(name.rstrip("*") for names in _mechanisms().values() for name in names)
    new = {
        what: [name for name in names if name[-1] != "*"] for what, names in _mechanisms().items()
    }

    assert named == Counter({stem_of(name) for name in corpus.cases})
    assert {what: names for what, names in new.items() if len(names) > 3} == {}
    assert len(new) >= 25


def test_the_corpus_is_as_broad_as_it_says(corpus: Project) -> None:
    blocks = {stem_of(name): case.block for name, case in corpus.cases.items()}
    others = {name for name, block in blocks.items() if block.found_by != "sweep"}
    mechanisms = {
        what
        for what, names in _mechanisms().items()
        if others & {name.rstrip("*") for name in names}
    }
    reported = [name for name in others if blocks[name].reports]

    assert AREAS - {block.area for block in blocks.values()} == set()
    assert (
        f"Of {len(blocks)} cases, {len(blocks) - len(others)} come from the sweep and "
        f"{len(others)} from reports or measurements: {len(reported)} of these have a report.\n"
        f"They show {len(mechanisms)} mechanisms.\n"
    ) in (ROOT / "docs/corpus.md").read_text()


def test_every_snippet_is_code_of_its_workaround_and_the_others_are_listed(
    corpus: Project, judged: Mapping[str, Sequence[Judged]]
) -> None:
    cases = {case.stem: case for case in corpus.cases.values()}
    ways = [(name, way) for name, case in cases.items() for way in case.block.workarounds]
    skips = sum(cases[name].block.workarounds[way].skips for name, way in ways)
    without = {(name, way) for name, way in ways if way not in cases[name].block.snippets}
    idle = {(name, way) for name, rows in judged.items() for way in refuted(rows)}
    _, _, text = (ROOT / "docs/corpus.md").read_text().partition("\n## Workarounds\n")
    tables = text.partition("\n## ")[0].split("\nThese ")

    assert [f"{case.stem}: {fault}" for case in cases.values() for fault in snippets(case)] == []
    assert (
        f"Of {len(ways)} workarounds of {len({name for name, _ in ways})} cases, {skips} avoid the"
        f" feature and {len(ways) - len(without)} have code to paste."
    ) in tables[0]
    assert [
        {*re.findall(r"(?m)^\| ([\w\[\].-]+_\S+) \| (\S+) \| .+ \|$", table)}
        for table in tables[1:]
    ] == [idle, without]


def test_every_case_is_proven_and_most_are_across_releases(
    corpus: Project, judged: Mapping[str, Sequence[Judged]]
) -> None:
    lacks = {name: lacking(rows) for name, rows in judged.items()}
    # One that needs a device which nobody has measured on yet is told by `check` as unproven.
    awaited = {name for name in lacks if corpus.cases[name].block.needs and not judged[name]}

    assert {name: found for name, found in lacks.items() if found and name not in awaited} == {}
    assert sum(crosses(rows) for rows in judged.values()) >= 30
    assert sum(crosses(rows, since="5.0") for rows in judged.values()) >= 10


OLDER = {"apertus_load_fp16", "bitnet_default_load_dtype", "bitnet_packed_load"}
OLDER |= {"gpt_oss_mxfp4_dequantize", "llama_from_config_checkpoint_dtype"}
OLDER |= {"qwen3_fp8_dequantize", "qwen3_fp8_rest_dtype"}
"""The cases that were measured under other torches before their code changed."""


def test_under_no_torch_that_was_measured_a_cell_ends_unexpectedly(corpus: Project) -> None:
    _, under = site.judged_under_torches(corpus, answers.under_torches(Paths()))
    names = {
        torch for row in under for _, torch in [under_torch(row.seen.cell.environment) or ("", "")]
    }

    assert names == {torch.version for torch in corpus.matrix.torch.others}
    current = [row for row in under if not row.stale]
    assert [row.seen.cell for row in current if row.verdict.is_unexpected] == []
    assert {row.seen.cell.case for row in under if row.stale} == OLDER


def test_the_cases_that_fail_by_a_cpu_kernel_only_are_these(
    judged: Mapping[str, Sequence[Judged]],
) -> None:
    failed = {
        name: [row.seen.failed for row in rows if row.seen.failed is not None]
        for name, rows in judged.items()
    }
    only = {
        name
        for name, found in failed.items()
        if found and all(how.is_of_cpu_kernel for how in found)
    }

    assert only == {
        "audioflamingo3_load_half",
        "blip2_load_half",
        "ctrl_position_table_half",
        "peft_intruder_dimension_svd",
        "reformer_axial_load_half",
        "rwkv_orthogonal_init_half",
    }


@pytest.fixture(scope="module")
def surveyed(corpus: Project) -> tuple[Survey, list[dict[str, Any]]]:
    """What was published, and its OSV entries."""
    informed, rows = site.judged_grid(corpus, list(answers.published_rows(Paths())))
    found = survey(corpus.cases, list(informed.environments.values()), rows)
    published = Published(publications=read_publications(Paths().published))
    entries = (osv.entries_of(found, case, published, []) for case in corpus.cases.values())
    return found, [*chain.from_iterable(entries)]


def test_no_osv_range_holds_a_version_that_is_not_hit(
    surveyed: tuple[Survey, list[dict[str, Any]]],
) -> None:
    """That of intruder_dimension held peft 0.14.0 to 0.18.1, which cannot run it at all."""
    found, entries = surveyed
    wrong = [
        (case, package, version, sorted(readings))
        for entry in entries
        for case in [entry["database_specific"]["case"]]
        for affected in entry["affected"]
        for package in [affected["package"]["name"]]
        for precision in affected["ecosystem_specific"]["precisions"]
        for version, readings in _readings(found, case, affected, precision).items()
        if readings in ({Reading.ABSENT}, {Reading.GOOD}) and _holds(affected, version)
    ]

    assert wrong == []


def test_a_scanner_fed_with_the_osv_entries_names_the_bugs_that_audit_names(
    surveyed: tuple[Survey, list[dict[str, Any]]], tmp_path: Path
) -> None:
    lock = {"transformers": "4.57.6", "accelerate": "1.13.0", "peft": "0.19.0", "torch": "2.13.0"}
    path = tmp_path / "requirements.txt"
    path.write_text("".join(f"{name}=={version}\n" for name, version in lock.items()))
    scanned = {
        (entry["database_specific"]["case"], entry["summary"], affected["package"]["name"], name)
        for entry in surveyed[1]
        for affected in entry["affected"]
        for version in [lock.get(affected["package"]["name"])]
        if version and _holds(affected, version)
        if affected["ecosystem_specific"]["device"] == "cpu"
        for name in affected["ecosystem_specific"]["precisions"]
    }

    answer = repromatrix.audit(path)

    named = {
        (hit.case.name, hit.title, hit.at_fault, cell.precision.value)
        for hit in answer.hits
        for cell in hit.stands
        if hit.case.block.kind is CaseKind.BUG
    }
    others = [*answer.unknown, *answer.not_applicable, *answer.clear]
    unknown = {(cell.case, cell.precision.value): cell.why for cell in others}
    assert named - scanned == set()
    # A scanner sees one package, of which no version in between was measured to pass; `audit` knows
    # what stands beside it: another release, with which the case passes or nothing was measured.
    assert {(case, unknown[case, precision]) for case, _, _, precision in scanned - named} == {
        ("accelerate_fsdp2_master_weights", "between 4.57.6, which passes, and 5.3.0, which fails"),
        ("accelerate_fsdp2_mixed_dtypes", "between 4.57.6, which passes, and 5.3.0, which fails"),
        ("deformable_detr_lora_tied", ""),
        ("peft_second_adapter_half", "between 4.57.6, which fails, and 5.5.1, which passes"),
        ("rt_detr_matcher_infeasible", "needs scipy, which is not listed"),
        ("sam3_compile_sine_positions", "needs transformers>=5.4, has 4.57.6"),
    }


def _readings(
    found: Survey, case: str, affected: Mapping[str, Any], precision: str
) -> dict[str, set[Reading]]:
    """Return what was read in the environments of a series, by version of the package."""
    device = Device(affected["ecosystem_specific"]["device"])
    readings: dict[str, set[Reading]] = {}
    series = found.series(case)["", device, Precision(precision)]
    for name, row in series.items():
        version = found.by_name[name].version(affected["package"]["name"])
        if version and not Version(version).is_devrelease:
            readings.setdefault(version, set()).add(row.seen.reading)
    return readings


def _holds(affected: Mapping[str, Any], version: str) -> bool:
    """Evaluate the events of an entry as the format says: sorted, each changes what holds."""
    inside, here = False, Version(version)
    for event in affected["ranges"][0]["events"]:
        for kind, at in event.items():
            if kind == "introduced" and here >= Version(at):
                inside = True
            if kind == "fixed" and here >= Version(at):
                inside = False
            if kind == "last_affected" and here > Version(at):
                inside = False
    return inside


def test_a_collected_report_has_the_cases_that_name_it_or_a_reason(corpus: Project) -> None:
    text = (ROOT / "docs/corpus.md").read_text()
    address = r"[^\s|]+/\S+#\d+(?:, \S+#\d+)*"
    rows = re.findall(rf"(?m)^\| ({address}) \| ([^|]+) \|$", text)
    collected = {addresses: {*cases.split(", ")} for addresses, cases in rows}
    without = re.findall(rf"(?m)^\| ({address}) \| .+ \| (.*) \|$", text)
    counts = re.search(r"Of (\d+) reports .* (\d+) have a case,(?s:.*)\nThe other (\d+)", text)
    naming: dict[str, set[str]] = {}
    for case in corpus.cases.values():
        fixes = [entry.fixed_by or "" for entry in case.block.fails]
        for address in (*case.block.reports, *fixes):
            if found := THREAD.match(address):
                naming.setdefault("#".join(found.groups()), set()).add(case.stem)
    by_them = {name for row in collected for at in row.split(", ") for name in naming[at]}
    reported = {
        case.stem
        for case in corpus.cases.values()
        if case.block.reports and case.block.found_by != "sweep"
    }

    assert counts is not None
    every, covered, others = map(int, counts.groups())
    assert (len(collected), len(without), every - covered) == (covered, others, others)
    assert collected == {
        row: {name for at in row.split(", ") for name in naming[at]} for row in collected
    }
    # Who has a case, and is listed without one all the same, is named in the reason.
    assert [
        at
        for row, why in without
        for at in row.split(", ")
        if not why.endswith(".") or not any(name in why for name in naming.get(at, {""}))
    ] == []
    assert (
        f"Of the {len(reported)} cases with a report that do not come from the sweep,"
        f" {len(reported - by_them)} name none of these"
    ) in text
    assert len(reported - by_them) >= 30
