"""The pages and files behind the first page, by the values that they are made from."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from example_site import RECORD
from factories import failed
from hostile_site import HOSTILE, draw_hostile
from one_case import (
    BLOCK,
    CASE,
    ENVIRONMENTS,
    HEADLINE,
    NO_FLOAT,
    PUBLICATION,
    a_case,
    fake_run,
    judged,
    observed,
    paired,
    surveyed,
)
from rendered import Markup, pages

from repromatrix.reports.build import render
from repromatrix.reports.exports.badges import Colour, badges
from repromatrix.reports.exports.osv import entries_of
from repromatrix.reports.figures.releases import plots
from repromatrix.reports.pages.changes import changes
from repromatrix.reports.pages.index import case_list
from repromatrix.reports.pages.model import families_page
from repromatrix.reports.pages.package import Alone, packages
from repromatrix.reports.pages.release import Releases
from repromatrix.reports.sections.failures import signatures
from repromatrix.reports.sections.history import history
from repromatrix.reports.sections.numbers import dtypes, measured
from repromatrix.reports.sections.provenance import Settings
from repromatrix.reports.sections.release_changes import ReleaseDifference, between, by_case
from repromatrix.reports.sections.workarounds import advise
from repromatrix.reports.site import Published
from repromatrix.reports.text import filed
from repromatrix.reports.view import survey
from repromatrix.runner.compare.diff import CellChange
from repromatrix.runner.judging.counts import BugMove, BugState
from repromatrix.runner.judging.verdicts import judge_all
from repromatrix.runner.model.cell import NEEDS_GPU, Cell, Source
from repromatrix.runner.model.outcomes import Device, Outcome, Precision, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from repromatrix.runner.model.observation import Observation

BROKE = ReleaseDifference(
    change=CellChange.BROKE,
    case="cache_float",
    title="The cache has no float",
    href="case/cache_float.html",
    workaround="",
    precisions="bf16",
    device="cpu",
    before="is not applicable: needs transformers>=4.50, has 4.49.0",
    after=HEADLINE,
)
BRIEF = "cpu, torch 2.13.0, Python 3.11"
PUBLISHED = Published(
    publications={PUBLICATION.name: PUBLICATION}, records=(RECORD,), base_url="https://x.org/r/"
)


def published_run(cell: Cell) -> Observation | None:
    seen = fake_run(cell)
    return replace(seen, source=PUBLICATION.name) if seen else None


def test_a_main_between_two_releases_ends_no_range_and_is_the_before_of_none() -> None:
    """It stands between 4.50.1, where bf16 fails, and 4.51.0; on it, bf16 passes."""
    *releases, newest, main = ENVIRONMENTS

    assert (newest.name, main.name) == ("4.51.0", "main")

    def run(cell: Cell) -> Observation | None:
        passes = cell.environment == "main"
        return observed(cell, Outcome.PASSES) if passes else fake_run(cell)

    view = survey({CASE.name: CASE}, (*releases, main, newest), judged(run))
    steps = between(view)
    (span,) = history(view, CASE)

    assert view.line == ("4.49.0", "4.50.0", "4.50.1", "4.51.0")
    assert [one.name for one in view.columns] == [*view.line, "main"]
    assert view.spans(view.line) == "4.49.0 to 4.51.0"
    assert view.spans(view.releases) == "4.49.0 to 4.51.0, main"
    assert {name: step.before for name, step in steps.items()} == {
        "4.50.0": "4.49.0",
        "4.50.1": "4.50.0",
        "main": "4.50.1",
        "4.51.0": "4.50.1",
    }
    assert span.mend is not None
    assert span.mend.at.name == "4.51.0"


def test_the_page_of_main_says_which_sources_were_measured() -> None:
    *releases, newest, main = ENVIRONMENTS
    version = "4.51.0.dev0+g3cd1a2307acd"
    old = replace(main, pins={**main.pins, "transformers": version})
    view = survey({CASE.name: CASE}, (*releases, old, newest), judged())
    told = replace(PUBLICATION, main=f"{version} 2025-04-01 owner/fork")

    assert Releases(view, {}, [told]).page("main").origin == (
        "sources that claim transformers 4.51.0.dev0 commit 3cd1a2307acd of 2025-04-01"
        " from owner/fork; older than the newest release, 4.51.0"
    )
    assert Releases(view, {}).page("4.51.0").origin == ""


def test_a_family_has_what_is_open_first_and_says_how_its_cases_stand() -> None:
    still = a_case(name="zoo_still_fails")

    def fails(cell: Cell) -> Observation | None:
        seen = fake_run(cell)
        there = (cell.environment, cell.workaround) == ("4.51.0", "")
        half = cell.precision is Precision.BF16
        return observed(cell, Outcome.FAILS, failed=NO_FLOAT) if there and half else seen

    cases = {CASE.name: CASE, still.name: still}
    rows = [*judged(), *judged(fails, still)]
    found = survey(cases, ENVIRONMENTS, rows)
    advised = {name: advise(found, case) for name, case in cases.items()}
    [family] = families_page(found, advised).families

    assert [one.case for one in family.members] == ["zoo_still_fails", "cache_float"]
    assert (family.state, family.says) == (BugState.OPEN, "2 known bugs: 1 open, 1 fixed")


def test_a_package_shows_what_changed_of_the_cases_that_need_it() -> None:
    """Under peft stood what a release of transformers changed in cases without an adapter."""
    newer = [
        replace(one, pins={**one.pins, "accelerate": "1.6.0"}) if one.name == "4.51.0" else one
        for one in ENVIRONMENTS
    ]
    needs = a_case(BLOCK.replace('"torch"', '"torch", "accelerate"'), "with_accelerate")
    cases = {CASE.name: CASE, needs.name: needs}
    found = survey(cases, newer, [*judged(), *judged(case=needs)])
    held = packages(found, between(found))[1].held[1]

    assert held.version == "1.6.0"
    assert {one.case for one in held.differences} == {"cache_float", "with_accelerate"}
    assert [one.case for one in held.fixed] == ["with_accelerate"]


@pytest.mark.parametrize("name", ["..", "a/b", ".hidden", "é" * 300, "a b", "\udcff", "%2e"])
def test_a_foreign_name_becomes_the_name_of_one_file(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{filed(name)}.html").write_text("")

    assert [path.parent for path in tmp_path.rglob("*")] == [tmp_path]
    assert filed(name) != name
    assert not filed(name).startswith(".")


def test_a_package_names_every_version_that_fails_not_only_that_of_its_pair() -> None:
    """It named peft 0.15.2 alone, which was measured as a pair, and not 0.14.0 beside it."""
    pairs = ["4.51.0+accelerate1.4.0", "4.51.0+accelerate1.6.0"]
    blamed = [entry.model_copy(update={"at_fault": "accelerate"}) for entry in CASE.block.fails]
    update = {"environments": tuple(pairs), "fails": tuple(blamed)}
    case = replace(CASE, block=CASE.block.model_copy(update=update))
    old = replace(ENVIRONMENTS[1], pins={**ENVIRONMENTS[1].pins, "accelerate": "1.3.0"})
    environments = [
        ENVIRONMENTS[0],
        old,
        *ENVIRONMENTS[2:],
        *paired(pairs),
    ]
    broken = next(row for row in judged() if row.seen.outcome is Outcome.FAILS)
    cell = broken.seen.cell._replace(environment=pairs[0])
    there = broken.seen.cell._replace(environment="4.50.1")
    rows = [
        *(row for row in judged() if row.seen.cell != there),
        replace(broken, seen=replace(broken.seen, cell=cell)),
    ]
    found = survey({case.name: case}, environments, rows)
    expected = Alone(
        case="cache_float",
        title="The cache has no float",
        href="case/cache_float.html",
        workaround="",
        precisions="bf16",
        ranges=("1.3.0 to 1.4.0, fixed in 1.5.2",),
        releases="4.50.0, 4.51.0+accelerate1.4.0",
        is_open=False,
    )

    assert (expected,) == packages(found, between(found))[1].alone


def test_before_a_publication_replaced_another_the_page_says_that_nothing_is_known() -> None:
    first = Published(publications={PUBLICATION.name: PUBLICATION})

    assert changes(surveyed(), Published()).begins == "Nothing has been published yet."
    assert changes(surveyed(), first).begins == (
        "No publication has replaced 2026-11-21 yet: "
        "the next one is compared with it, and what changed before it was not kept."
    )


def test_the_badge_of_a_case_of_a_stack_speaks_of_its_newest_stack() -> None:
    case = a_case(BLOCK.replace('"torch"', '"ms-swift"'))
    pins = {"transformers": "4.50.0", "ms-swift": "3.3.0"}
    stack = replace(ENVIRONMENTS[1], name="ms-swift3.3.0", source=Source.STACK, pins=pins)
    every = [*ENVIRONMENTS, stack]
    ran = [
        replace(row, cell=row.cell._replace(environment=stack.name))
        for row in map(fake_run, [Cell(case.name, "", "4.51.0", Precision.BF16, Device.CPU)])
        if row is not None
    ]
    rows = judge_all(ran, {case.name: case}, {one.name: one for one in every})
    found = survey({case.name: case}, every, rows)
    said = next(badge for badge in badges(found, Settings(found)) if "/case/" in badge.path)

    assert (said.message.partition(" (")[0], said.colour) == (
        "passes on ms-swift3.3.0",
        Colour.GOOD,
    )


def test_a_release_on_which_nothing_fails_but_what_is_meant_to_has_a_good_badge() -> None:
    meant = a_case(BLOCK.replace("models", 'kind = "policy"\nmodels'), "meant")
    cases = {one.name: one for one in (CASE, meant)}

    def run(cell: Cell) -> Observation | None:
        seen = fake_run(cell)
        fixed = seen and seen.failed and cell.case == CASE.name
        return replace(seen, outcome=Outcome.PASSES, failed=None) if seen and fixed else seen

    rows = [row for one in cases.values() for row in judged(run, one)]
    found = survey(cases, ENVIRONMENTS, rows)
    said = {one.path: one for one in badges(found, Settings(found))}["badge/release/4.50.0"]

    assert said.message.removesuffix(f" ({BRIEF})") == "0 of 1 bug fail, 1 more as intended"
    assert said.colour is Colour.GOOD


def test_what_became_of_a_workaround_is_no_bug_that_broke_or_was_fixed() -> None:
    def run(cell: Cell) -> Observation | None:
        seen = fake_run(cell)
        broken = cell.workaround == "away" and cell.environment == "4.50.1"
        return observed(cell, Outcome.FAILS, failed=NO_FLOAT) if broken and seen else seen

    found = surveyed(run)
    arranged = Releases(found, between(found))
    broke, fixed = arranged.page("4.50.1"), arranged.page("4.51.0")

    assert (broke.changes[CellChange.BROKE], broke.moves[BugMove.BROKE]) == ((), ())
    assert [one.steps[0].workaround for one in broke.beside[CellChange.BROKE]] == ["away"]
    assert [one.steps[0].workaround for one in fixed.changes[CellChange.FIXED]] == [""]
    assert [one.steps[0].workaround for one in fixed.beside[CellChange.FIXED]] == ["away"]


def test_half_precisions_that_differ_in_their_own_name_alone_are_one_line() -> None:
    rows = [
        replace(BROKE, precisions=precision, after=f"RuntimeError: Float and {name}")
        for precision, name in (("bf16", "BFloat16"), ("fp16", "Half"))
    ]
    [change] = by_case(surveyed(), rows)

    assert (change.kinds, change.sort) == (("trainer", "error"), "error")
    assert [(one.precisions, one.after) for one in change.steps] == [
        ("bf16 and fp16", "RuntimeError: Float and BFloat16"),
    ]


def test_both_half_precisions_are_one_row_of_a_release() -> None:
    how = {
        name: failed("RuntimeError", f"expected Float and {name}") for name in ("Half", "BFloat16")
    }
    names = {Precision.FP16: "Half", Precision.BF16: "BFloat16"}

    def run(cell: Cell) -> Observation | None:
        seen = fake_run(cell)
        if seen is None or cell.environment != "4.50.0" or cell.precision not in names:
            return seen
        return replace(seen, outcome=Outcome.FAILS, failed=how[names[cell.precision]])

    found = surveyed(run)
    [case] = Releases(found, {}).page("4.50.0").failing

    assert len(case.ways) == len({way.mark for way in case.ways})


@pytest.mark.parametrize(
    "changed",
    [{"unstable": True}, {"outcome": Outcome.OUT_OF_MEMORY}, {"outcome": Outcome.NOT_RUN}],
)
def test_a_release_is_not_called_passing_where_one_precision_may_fail(
    changed: dict[str, Any],
) -> None:
    def run(cell: Cell) -> Observation | None:
        seen = fake_run(cell)
        there = cell.environment == "4.51.0" and cell.precision is Precision.BF16
        return replace(seen, **changed) if seen and there and not cell.workaround else seen

    found = surveyed(run)
    said = {badge.path: badge for badge in badges(found, Settings(found))}
    release, case = said["badge/release/4.51.0"], said["badge/case/cache_float"]

    assert (release.message.partition(" (")[0], release.colour) == ("unknown", Colour.UNKNOWN)
    assert (case.message.partition(" (")[0], case.colour) == (
        "fails in bf16 on 4.50.1",
        Colour.BAD,
    )


@pytest.mark.parametrize("outcome", [Outcome.OUT_OF_MEMORY, Outcome.UNBUILDABLE, Outcome.NOT_RUN])
def test_a_device_on_which_the_machine_decided_everything_changes_no_badge_and_no_entry(
    outcome: Outcome,
) -> None:
    later = replace(PUBLICATION, name="2026-12-01", date="2026-12-01")
    told = replace(PUBLISHED, publications={one.name: one for one in (PUBLICATION, later)})

    def run(cell: Cell) -> Observation | None:
        seen = published_run(cell)
        if seen is None or cell.device is Device.CPU:
            return seen
        full = NO_FLOAT if outcome is Outcome.OUT_OF_MEMORY else None
        return replace(seen, outcome=outcome, failed=full, source=later.name)

    before, after = surveyed(published_run), surveyed(run, devices=tuple(Device))

    assert after.devices == tuple(Device)
    assert [*badges(after, Settings(after))] == [*badges(before, Settings(before))]
    assert entry(after, CASE, told, []) == entry(before, CASE, told, [])
    assert signatures(after, "") == signatures(before, "")


def test_what_ran_out_of_memory_has_measured_no_number() -> None:
    def run(cell: Cell, *, full: bool) -> Observation | None:
        seen = fake_run(cell)
        if seen is None or cell.environment != "4.51.0":
            return seen
        half = replace(seen, measured={"error": 7.0}, computed={"x": 1})
        return replace(half, outcome=Outcome.OUT_OF_MEMORY) if full else None

    full, none = surveyed(partial(run, full=True)), surveyed(partial(run, full=False))

    assert measured(full, CASE.name) == measured(none, CASE.name) != ()
    assert dtypes(full, CASE.name) == dtypes(none, CASE.name)
    assert plots(full, CASE) == plots(none, CASE) != ()


def test_without_evidence_a_badge_is_unknown_and_never_green() -> None:
    found = survey({CASE.name: CASE}, ENVIRONMENTS, ())
    made = list(badges(found, Settings(found)))

    assert {badge.message for badge in made} == {
        "not measured yet (nothing measured)",
        "unknown (nothing measured)",
    }
    assert {badge.colour for badge in made} == {Colour.UNKNOWN}


def test_what_waits_for_a_gpu_never_looks_safe(tmp_path: Path) -> None:
    """It was a grey dash, "nowhere that was measured" and a badge that said nothing."""

    def waits(cell: Cell) -> Observation:
        return observed(cell, Outcome.NOT_MEASURED, reason=NEEDS_GPU)

    found = surveyed(waits)
    badge = next(one for one in badges(found, Settings(found)) if one.path.startswith("badge/case"))
    [member] = families_page(found, {CASE.name: advise(found, CASE)}).families[0].members
    render({CASE.name: CASE}, ENVIRONMENTS, judged(waits), tmp_path)
    says = "not measured: needs a GPU"

    assert {seen.mark.words for _, seen in found.shown} == {says}
    assert {row.verdict for row in found.rows.values()} == {Verdict.UNPROVEN}
    assert (badge.message, badge.right) == (f"{says} (nothing measured)", "not measured")
    assert member.spells == ()
    assert [item["unmeasured"] for item in case_list(found)] == [says]
    for page in ("index.html", "model/gemma3.html", "case/cache_float.html", "release/4.50.0.html"):
        assert says in (tmp_path / page).read_text(), page


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("\"linalg_svd_cpu\" not implemented for 'Half'", True),
        ("Unsupported dtype BFloat16", False),
        ("mat1 and mat2 must have the same dtype, but got Float and Half", False),
    ],
)
def test_a_failure_that_only_a_cpu_kernel_words_so_is_told(
    message: str,
    expected: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
) -> None:
    how = failed("RuntimeError", message)

    def run(cell: Cell) -> Observation | None:
        seen = fake_run(cell)
        return replace(seen, failed=how) if seen is not None and seen.failed is not None else seen

    render({CASE.name: CASE}, ENVIRONMENTS, judged(run), tmp_path)
    shown = surveyed(run).stacks("cache_float")["", Device.CPU]["4.50.0"][1]
    page = (tmp_path / "case/cache_float.html").read_text()

    assert ("CPU kernel only: " in shown.text) is expected
    assert ("these cells say nothing about a GPU" in page) is expected


def test_what_is_not_published_or_is_meant_so_is_in_no_database() -> None:
    meant = a_case(block=_block(kind="policy"))

    assert entry(surveyed(), CASE, PUBLISHED, []) == {}
    assert entry(surveyed(published_run), meant, PUBLISHED, []) == {}


def _block(kind: str) -> str:
    return BLOCK.replace("title =", f'kind = "{kind}"\ntitle =')


def entry(*told: Any) -> dict[str, Any]:  # noqa: ANN401 - as `entries_of` takes them
    """Return the first entry of a case, empty where it has none."""
    return next(entries_of(*told), {})


def failing_too(release: str) -> Any:  # noqa: ANN401 - as JSON is
    """Return the entry of a case that fails in one more release."""

    def run(cell: Cell) -> Observation | None:
        seen = published_run(cell)
        there = cell.environment == release and cell.precision is Precision.BF16
        how = next(row.seen.failed for row in judged() if row.seen.failed)
        if seen and there and not cell.workaround:
            return replace(seen, outcome=Outcome.FAILS, failed=how)
        return seen

    return entry(surveyed(run), CASE, PUBLISHED, [])


def events_with(release: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = failing_too(release)["affected"][0]["ranges"][0]["events"]
    return found


def test_where_it_is_not_healed_a_range_stays_open() -> None:
    assert events_with("4.51.0") == [{"introduced": "4.50.0"}]


def test_a_range_with_no_pass_before_it_may_be_older_than_what_is_measured() -> None:
    told = "A range from 0 fails on the oldest version that was measured; nothing older was."

    assert events_with("4.49.0")[0] == {"introduced": "0"}
    assert told in failing_too("4.49.0")["details"]
    assert told not in failing_too("4.51.0")["details"]


def decided_by_peft(fails: Mapping[str, bool]) -> dict[str, Any]:
    """Return the entry of a case that fails with some versions of peft, on any release."""
    held = {"4.49.0": "0.14.0", "4.50.0": "0.14.0", "4.50.1": "0.15.0"}
    name = "4.51.0+peft0.14.0"
    column = {one.name: one for one in ENVIRONMENTS}["4.51.0"]
    pinned = {**column.pins, "transformers": "4.51.0", "peft": "0.14.0"}
    environments = [
        *(
            replace(column, name=one, pins={**column.pins, "transformers": one, "peft": version})
            for one, version in {**held, "4.51.0": "0.15.0"}.items()
        ),
        replace(column, name=name, source=Source.PAIR, pins=pinned),
    ]
    blamed = [entry.model_copy(update={"at_fault": "peft"}) for entry in CASE.block.fails]
    block = CASE.block.model_copy(update={"environments": (name,), "fails": tuple(blamed)})
    of = replace(CASE, block=block)
    passing, broken = (
        next(row.seen for row in judged() if row.seen.outcome is outcome)
        for outcome in (Outcome.PASSES, Outcome.FAILS)
    )
    rows = []
    for one in environments:
        failing = fails[one.pins["peft"]]
        cell = Cell(of.name, "", one.name, Precision.BF16, passing.cell.device)
        rows.append(replace(broken if failing else passing, cell=cell, source=PUBLICATION.name))
    known = {one.name: one for one in environments}
    found = survey({of.name: of}, environments, judge_all(rows, {of.name: of}, known))
    return entry(found, of, PUBLISHED, [])


def test_what_another_package_decides_is_told_along_its_versions() -> None:
    [made] = decided_by_peft({"0.14.0": True, "0.15.0": False})["affected"]

    assert made == {
        "package": {"ecosystem": "PyPI", "name": "peft", "purl": "pkg:pypi/peft"},
        "ranges": [
            {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "0.15.0"}]},
        ],
        "versions": ["0.14.0"],
        "ecosystem_specific": {"precisions": ["bf16"], "device": "cpu"},
    }


def test_entries_hold_against_the_published_schema() -> None:
    """The schema is validation/schema.json of github.com/ossf/osv-schema (Apache-2.0).

    Its main branch at 51b8156b69b9 of 2026-07-01, behind 1.7.5: the first that knows the names
    beginning with `x_`, of databases that nobody aggregates.
    """
    jsonschema = pytest.importorskip("jsonschema", reason="the schema needs jsonschema")
    schema = json.loads((Path(__file__).parents[1] / "fixtures" / "osv_schema.json").read_text())
    made = entry(surveyed(published_run), CASE, PUBLISHED, [HOSTILE])
    check = jsonschema.Draft202012Validator(schema)

    assert list(check.iter_errors(made)) == []
    assert list(check.iter_errors(decided_by_peft({"0.14.0": True, "0.15.0": False}))) == []
    assert list(check.iter_errors(made | {"id": "REPROMATRIX-1"})) != []


def test_the_data_are_those_of_a_snapshot_beside_what_was_measured_here() -> None:
    found = surveyed()
    sources = {"4.50.0": "this machine", "4.51.0": "merged evidence"}
    rows = {
        cell: replace(
            row, seen=replace(row.seen, source=sources.get(cell.environment, "2026-11-21"))
        )
        for cell, row in found.rows.items()
    }
    line = Settings(replace(found, rows=rows)).whole().line

    data = "Data: 2026-11-21; 9 cells measured here; 9 cells of merged evidence."
    assert line.endswith(f"a GPU runs other kernels. {data}")


def test_hostile_text_is_text_on_every_kind_of_page(tmp_path: Path) -> None:
    draw_hostile(tmp_path)
    files = {
        name: text for name, text in pages(tmp_path).items() if name[-3:] not in {".gz", "zip"}
    }
    html = {name: text.decode() for name, text in files.items() if name.endswith(".html")}
    silent = [name for name, text in html.items() if "&lt;script&gt;alert(1)" not in text]
    found = [element for text in html.values() for element in Markup(text).found]
    sources = {given.get("src", "").removeprefix("../") for tag, given in found if tag == "script"}
    images = {given["src"].removeprefix("../") for tag, given in found if tag == "img"}
    links = {given["href"] for tag, given in found if tag == "a"}

    assert silent == ["404.html"]
    assert {tag for tag, _ in found} & {"iframe", "style", "form", "object"} == set()
    assert [name for _, given in found for name in given if name.startswith(("on", "style"))] == []
    assert [one for one in sources if one and not (tmp_path / one.lstrip("/")).exists()] == []
    assert [one for one in images if not one.startswith("badge/")] == []
    assert [one for one in links if one.startswith(("javascript:", "data:"))] == []
    for name, content in files.items():
        _readable(name, content.decode())


def _readable(name: str, text: str) -> None:
    """Read a file as what its name says that it is."""
    match name.rpartition(".")[2]:
        case "json":
            json.loads(text)
        case "svg" | "xml":
            ET.fromstring(text)  # noqa: S314 - our own bytes
        case "py":
            compile(text, name, "exec")
        case _:
            pass


def test_a_file_that_is_as_it_should_be_is_not_written_again(tmp_path: Path) -> None:
    render({CASE.name: CASE}, ENVIRONMENTS, judged(), tmp_path)
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*")}
    (tmp_path / "claims.html").write_text("other")
    (tmp_path / "release" / "4.0.0.html").write_text("lost")
    render({CASE.name: CASE}, ENVIRONMENTS, judged(), tmp_path)
    after = {path: path.stat().st_ino for path in tmp_path.rglob("*")}

    assert {path.name for path in before if before[path] != after[path]} == {"claims.html"}
    assert before.keys() == after.keys()
