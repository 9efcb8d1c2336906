"""The newest release on which all cases pass, and a specifier whose exclusions are cited."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case, cell, installed, provenance, rows_of, seen, what_is_known
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from repromatrix.runner import project
from repromatrix.runner.audit import asking, index
from repromatrix.runner.audit.advice import advise, counted
from repromatrix.runner.audit.hits import audit
from repromatrix.runner.audit.known import known as known_of
from repromatrix.runner.audit.questions import AuditQuestion
from repromatrix.runner.audit.render_advice import document, moved
from repromatrix.runner.document import Document, write
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.evidence.answers import published_rows
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.environment_name import with_extras
from repromatrix.runner.model.families import exists, meant
from repromatrix.runner.model.observation import LOCAL
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from repromatrix.runner.audit.advice import Advice
    from repromatrix.runner.audit.known import KnownEvidence
    from repromatrix.runner.model.case import Case

PASSES, FAILS, NOT_RUN = Outcome.PASSES, Outcome.FAILS, Outcome.NOT_RUN
BF16 = AuditQuestion(precisions=(Precision.BF16,))


def text(found: Advice) -> str:
    return write(document(found), "text")


def advice(**line: Outcome) -> Advice:
    return advise(
        what_is_known({name.strip("v").replace("_", "."): one for name, one in line.items()}), BF16
    )


def test_an_answer_about_a_device_that_never_ran_says_so() -> None:
    on_cpu = what_is_known({"4.50.0": PASSES})
    found = advise(on_cpu, AuditQuestion(precisions=(Precision.BF16,), device=Device.CUDA))

    assert text(found).endswith("\nEvidence: nothing is measured on CUDA.\n")
    assert document(found).data["measured-on"] == {"torch": [], "python": []}


def test_every_exclusion_cites_its_cell() -> None:
    found = advice(
        v4_48_0=FAILS,
        v4_49_0=PASSES,
        v4_50_0=FAILS,
        v4_50_1=FAILS,
        v4_51_0=PASSES,
        v4_51_1=FAILS,
        v4_51_2=PASSES,
        v4_52_0=FAILS,
    )

    assert (found.specifier, found.code) == (
        ">=4.49.0,!=4.50.*,!=4.51.1,<=4.51.2",
        ExitCode.AS_EXPECTED,
    )
    assert [[row.cell.environment for row in one.cites] for one in found.exclusions] == [
        ["4.48.0"],
        ["4.50.0", "4.50.1"],
        ["4.51.1"],
        ["4.52.0"],
    ]
    assert found.within == ("4.49.0", "4.51.0", "4.51.2")


def test_what_is_not_measured_is_not_advised_and_the_runs_are_named() -> None:
    found = advice(v4_49_0=PASSES, v4_50_0=NOT_RUN, v4_51_0=NOT_RUN)

    assert (found.specifier, found.code) == ("==4.49.0", ExitCode.AS_EXPECTED)
    assert text(found) == (
        "4.49.0 is the newest release on which all pass: 1 case, bf16.\n"
        "\n"
        "transformers==4.49.0\n"
        "\n"
        "==4.49.0  4.50.0: not enough evidence, toy_breaks (bf16);"
        " toy_breaks bf16 passes in 4.49.0\n"
        "\n"
        "Not enough evidence for 2 newer releases (4.50.0, 4.51.0). Run:\n"
        "  nox -s matrix -- --case toy_breaks --release 4.50.0,4.51.0"
        " --precision bf16 --workaround none\n"
        "\n"
        "Evidence: measured on CPU, torch 2.13.0+cpu, Python 3.11.\n"
    )


def test_without_a_passing_release_the_answer_is_no_or_not_enough_evidence() -> None:
    no, open_ = advice(v4_49_0=FAILS, v4_50_0=FAILS), advice(v4_49_0=FAILS, v4_50_0=NOT_RUN)

    assert (no.code, open_.code) == (ExitCode.UNEXPECTED, ExitCode.UNDECIDED)
    assert text(no).startswith("4.50.0 has the fewest known bugs: 1 known bug, of 1 case, bf16.")
    assert text(open_).startswith("4.49.0 has the fewest known bugs: 1 known bug, of 1 case, bf16.")
    assert "Not enough evidence for 1 newer release (4.50.0). Run:" in text(open_)
    assert text(advice(v4_49_0=NOT_RUN)).startswith("Not enough evidence: no release is measured")


def test_where_none_passes_all_the_one_that_comes_nearest_is_named() -> None:
    asked = AuditQuestion(precisions=(Precision.BF16, Precision.FP16))
    toy = case(BREAKS)
    line = what_is_known({"4.49.0": FAILS, "4.50.0": FAILS}, toy)
    ran = provenance(toy, line.environments["4.49.0"])
    fp16 = seen(PASSES, cell("4.49.0", Precision.FP16), ran=ran)
    rows = [*rows_of(line).values(), fp16]
    found = advise(known_of({toy.name: toy}, line.environments, rows), asked)

    assert text(found).startswith("4.49.0 has the fewest known bugs: 1 known bug, of 1 case, ")
    assert document(found).data["fewest-failing"] == {
        "release": "4.49.0",
        "passing": ["toy_breaks:fp16"],
        "failing": ["toy_breaks:bf16"],
        "not-applicable": [],
        "unknown": [],
    }


def test_a_release_to_which_nothing_applies_is_not_advised() -> None:
    toy = case(BREAKS, dependencies=("torch", "transformers>=4.50"))
    found = advise(what_is_known({"4.49.0": NOT_RUN, "4.50.0": FAILS}, toy), BF16)

    assert (found.newest, found.code) == (None, ExitCode.UNEXPECTED)


@given(
    outcomes=st.lists(st.sampled_from([PASSES, FAILS, NOT_RUN]), min_size=1, max_size=30),
    lines=st.integers(min_value=1, max_value=4),
)
def test_the_specifier_allows_measured_passes_alone_and_the_newest_of_them(
    outcomes: list[Outcome], lines: int
) -> None:
    line = {f"4.{place // lines}.{place % lines}": one for place, one in enumerate(outcomes)}
    found = advise(what_is_known(line), BF16)
    passing = [name for name, one in line.items() if one is PASSES]
    passing = passing or [name for name, one in line.items() if one is FAILS]

    if not passing:
        assert found.specifier == ""
        return
    allowed = [name for name in line if SpecifierSet(found.specifier).contains(name)]
    assert allowed == list(found.within)
    assert set(allowed) <= set(passing)
    assert allowed[-1] == passing[-1]
    failing = {name for name, one in line.items() if one is FAILS} - {*passing}
    for one in found.exclusions:
        said = {standing.release for standing in one.releases}
        cited = {row.cell.environment for row in one.cites}
        assert cited == said & failing or (not said & failing and cited and cited <= set(passing))


def _pair(**pairs: Outcome) -> KnownEvidence:
    toy = case(PAIRED)
    names = dict(zip(pairs, toy.block.environments, strict=True))
    line = {"4.49.0": FAILS, "4.50.0": PASSES, "4.51.0": PASSES}
    pins = {name: {"peft": "0.14.0"} for name in line}
    known = what_is_known(line, toy, pins)
    rows = [
        seen(one, cell(names[pair]), ran=provenance(toy, known.environments[names[pair]]))
        for pair, one in pairs.items()
    ]
    environments = known.environments
    return known_of({toy.name: toy}, environments, [*rows_of(known).values(), *rows])


PAIRED = """
environments = ["4.50.0+peft0.15.2", "4.51.0+peft0.15.2", "4.49.0+peft0.15.2"]
[[tool.repromatrix.fails]]
when = ["peft>=0.15,<0.16"]
raises = "ValueError"
match = "it breaks"
"""


def test_pairs_that_fail_on_a_release_that_the_specifier_allows_are_named() -> None:
    found = advise(_pair(first=FAILS, second=PASSES, outside=FAILS), BF16)

    assert found.specifier == ">=4.50.0,<=4.51.0"
    assert [row.cell.environment for row in found.contradicted] == ["4.50.0+peft0.15.2"]
    assert (
        "\n\n"
        "That alone is not enough: with another peft, releases that it allows fail:\n"
        "  toy_breaks bf16 fails in 4.50.0+peft0.15.2: ValueError: it breaks\n"
        "\n"
        "Measured to pass together: transformers==4.51.0 peft==0.14.0\n"
    ) in text(found)
    assert document(found).data["contradicted-by"] == [
        {
            "case": "toy_breaks",
            "environment": "4.50.0+peft0.15.2",
            "precision": "bf16",
            "outcome": "fails",
            "error": "ValueError: it breaks",
            "source": LOCAL,
            "packages": {"peft": "0.15.2"},
        }
    ]


def test_of_a_case_that_only_pairs_can_run_each_pair_is_told() -> None:
    names = ("4.49.0+peft0.15.2", "4.50.0+peft0.15.2")
    toy = case(
        f"environments = {[*names]}\n".replace("'", '"') + BREAKS,
        dependencies=("torch", "transformers", "peft"),
    )
    known = what_is_known({"4.49.0": NOT_RUN, "4.50.0": NOT_RUN}, toy)
    rows = [
        seen(outcome, cell(name), ran=provenance(toy, known.environments[name]))
        for name, outcome in zip(names, (FAILS, PASSES), strict=True)
    ]
    found = advise(known_of({toy.name: toy}, known.environments, rows), BF16)

    assert text(found).split("\n\n")[1].splitlines() == [
        "Cases that no release by itself can run:",
        "  4.49.0+peft0.15.2: fails toy_breaks (bf16)",
        "  4.50.0+peft0.15.2: passes toy_breaks (bf16)",
    ]
    assert [one["release"] for one in document(found).data["apart"]] == [*names]


def test_advice_by_shared_code_says_which_family_was_measured() -> None:
    toy = case('same-code = ["doll"]\n' + BREAKS)
    known = what_is_known({"4.49.0": PASSES}, toy)
    doll, own = (replace(BF16, models=frozenset({name})) for name in ("doll", "toy"))
    found = advise(known, doll)

    assert text(found).startswith(
        "4.49.0 is the newest release on which all pass: 1 case, bf16.\n"
        "\n"
        "transformers==4.49.0\n"
        "\n"
        "By shared code: toy_breaks (measured with toy).\n"
    )
    assert [document(one).data["shared-code"] for one in (found, advise(known, own))] == [
        {"toy_breaks": ("toy",)},
        {},
    ]
    assert "shared code" not in text(advise(known, own))


@pytest.mark.parametrize(
    "step", [pytest.param(10, id="a tenth"), pytest.param(1, id="all", marks=pytest.mark.whole)]
)
def test_of_every_real_case_each_clause_cites_cells_that_are_in_the_evidence(step: int) -> None:
    places = Paths(root=ROOT)
    loaded = project.load(places, code=False)
    rows = {
        row.cell: row
        for row in published_rows(places)
        if row.cell.workaround == "" and row.cell.device is Device.CPU
    }
    known = known_of(loaded.cases, loaded.environments, rows.values())
    names, advised = [*loaded.cases][::step], 0
    for name, precisions in itertools.product(names, [tuple(Precision), *_EACH]):
        found = advise(known, AuditQuestion(cases=(name,), precisions=precisions))
        advised += bool(found.specifier)
        for one in found.exclusions:
            assert one.cites, (name, precisions, one.clause)
            assert all(rows[row.cell] == row for row in one.cites)
            assert not one.failing or not any(row.outcome is PASSES for row in one.cites)
        allowed = SpecifierSet(found.specifier or "<0")
        asked = [one for one in loaded.cases[name].head.dependencies if one.name == "transformers"]
        for standing in found.standings:
            if not all(one.specifier.contains(standing.release) for one in asked):
                assert standing.unknown == ()
        assert {row.cell for row in found.contradicted} == {
            at
            for at, row in rows.items()
            if at.case == name
            and at.precision in precisions
            and "+peft" in at.environment
            and row.outcome.is_failure
            and allowed.contains(at.environment.partition("+")[0])
        }

    assert advised > len(names)


_EACH = [(one,) for one in Precision]


@pytest.fixture(scope="module")
def published() -> KnownEvidence:
    paths = Paths(root=ROOT)
    loaded = index.load(paths)
    return asking.known_of(loaded, AuditQuestion(), pytest.fail, workarounds=True)


def _most_asked(known: KnownEvidence) -> list[frozenset[str]]:
    """Return the 30 families with most cases, each in all of its spellings."""
    families = Counter(name for case in known.cases.values() for name in case.block.answers_for)
    named = dict.fromkeys(frozenset(meant(name, families)) for name, _ in families.most_common())
    return [*named][:30]


@pytest.mark.parametrize("precision", Precision)
def test_of_the_30_families_with_most_cases_no_release_has_fewer_known_bugs(
    precision: Precision, published: KnownEvidence
) -> None:
    families = _most_asked(published)
    assert len(families) == 30
    for models in families:
        chosen = [case for case in published.cases.values() if case.block.is_about(models)]
        asked = AuditQuestion(
            cases=tuple(case.name for case in chosen), precisions=(precision,), models=models
        )
        found = advise(published, asked)
        cases, _ = counted(chosen, asked, None)
        bad = {
            release: [case.name for case in cases if _counts(case, release, precision, published)]
            for release in published.releases()
            if any(_fails(case, release, precision, published) is not None for case in cases)
            and exists(models, release)
        }
        fewest = min(map(len, bad.values()))
        (*_, newest) = (release for release, names in bad.items() if len(names) == fewest)
        assert found.named is not None
        assert found.named.release == newest, models
        named = found.named.failing + found.named.unknown
        assert sorted(spot.case for spot in named) == sorted(bad[newest])
        assert {hit.case.name for hit in found.hits} == {spot.case for spot in found.named.failing}
        answer = text(found)
        assert len(answer.splitlines()) <= 36, models
        assert ("\nUnknown there, which counts as a bug: " in answer) == bool(found.named.unknown)


def _fails(case: Case, release: str, precision: Precision, known: KnownEvidence) -> bool | None:
    environment = with_extras(release, case.extras)
    return known.fails(Cell(case.name, "", environment, precision, Device.CPU))


def _counts(case: Case, release: str, precision: Precision, known: KnownEvidence) -> bool:
    """Say whether a case fails on a release, or applies there and nothing is known of it."""
    environment = with_extras(release, case.extras)
    result = known.result(Cell(case.name, "", environment, precision, Device.CPU))
    if result.fails is not None or result.declines:
        return result.fails is True
    base = known.environments[release]
    names = {*base.pins, *known.environments.get(environment, base).pins}
    asked = [one for one in case.head.dependencies if one.name in names]
    others = {one.name for one in case.head.dependencies} - names
    holds = all(base.version(one.name) in one.specifier for one in asked)
    return holds and not case.block.needs and not others - {*case.extras}


def test_what_needs_a_feature_counts_where_it_is_used() -> None:
    toy = case('concerns = "Models under FSDP2."\n' + BREAKS)
    known = what_is_known({"4.49.0": PASSES, "4.50.0": FAILS}, toy)
    other = case(BREAKS, name="toy_other")
    both = replace(known, cases={toy.name: toy, other.name: other})
    asked = replace(BF16, models=frozenset({"toy"}))

    assert counted([toy, other], asked, None) == ([other], {"fsdp2": 1})
    assert counted([toy, other], replace(asked, features=frozenset({"fsdp2"})), None)[1] == {}
    assert counted([toy], asked, None) == ([toy], {})  # else nothing would count
    assert "Not counted, add `--feature`: fsdp2 1." in text(advise(both, asked))


def test_of_packages_that_somebody_has_only_what_is_listed_counts() -> None:
    toy, other = case(BREAKS), case(BREAKS, name="toy_peft", dependencies=("torch", "peft"))

    assert counted([toy, other], BF16, installed())[0] == [toy]
    assert counted([toy, other], BF16, installed(peft="0.15.0"))[0] == [toy, other]


def test_a_release_without_the_model_is_not_named() -> None:
    known = what_is_known({"4.49.0": PASSES, "4.50.0": FAILS, "5.0.0": FAILS})

    assert advise(known, BF16).specifier == "==4.49.0"
    found = advise(known, replace(BF16, models=frozenset({"toy", "gemma3"})))
    assert found.named is not None
    assert (found.named.release, found.specifier) == ("5.0.0", ">=4.50.0,<=5.0.0")


def test_what_somebody_has_is_compared_and_a_release_near_it_is_named() -> None:
    known = what_is_known({"4.49.0": FAILS, "4.49.1": PASSES, "4.50.0": FAILS, "5.0.0": PASSES})
    found = advise(known, BF16, installed("4.49.0"))

    assert text(found).splitlines()[4:8] == [
        "Nearer to 4.49.0: transformers==4.49.1 (all pass).",
        "",
        "This change of versions, to transformers 5.0.0:",
        "  mends: A toy breaks (toy_breaks, bf16)",
    ]
    assert document(found).data["move"]["heals"] == ["toy_breaks:bf16"]


def test_a_change_of_versions_breaks_mends_and_leaves_unknown() -> None:
    known = what_is_known({"4.49.0": PASSES, "4.50.0": FAILS})
    old, new, unmeasured = (
        audit(installed(version), known, BF16) for version in ("4.49.0", "4.50.0", "9.0")
    )
    lines = [
        write(Document(parts=[moved(after.after(before, known), new.hits)], data=None), "text")
        for before, after in ((old, new), (new, old), (new, new), (old, unmeasured))
    ]

    assert [text.splitlines()[1:] for text in lines] == [
        [
            "  breaks: A toy breaks (toy_breaks, bf16)",
            "  keeps 0 known bugs; 0 cells unknown (not a pass)",
        ],
        [
            "  mends: A toy breaks (toy_breaks, bf16)",
            "  keeps 0 known bugs; 0 cells unknown (not a pass)",
        ],
        ["  keeps 1 known bug; 0 cells unknown (not a pass)"],
        ["  keeps 0 known bugs; 1 cell unknown (not a pass)"],
    ]
