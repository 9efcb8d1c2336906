"""Which release breaks a case and which heals it: from evidence, and with the fewest runs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case, environments, failed, provenance, seen

from repromatrix.runner import project
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.releases import (
    Finding,
    ReleaseSearches,
    Search,
    failing_precisions,
    judged,
    searches,
    together,
)
from repromatrix.runner.bisect.search import Edge, Result, SearchOutcome, SearchQuestion, Sought
from repromatrix.runner.errors import ExitCode, Interrupted
from repromatrix.runner.evidence import answers
from repromatrix.runner.evidence.answering import current
from repromatrix.runner.model.case import by_variant
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.cell import Cell, Environment
    from repromatrix.runner.model.observation import Observation
    from repromatrix.runner.project import Project

Known = dict["Cell", "Observation"]
RELEASES = ("4.49.0", "4.50.0", "4.50.1", "4.50.2", "4.51.0", "4.51.1")


# ------------------------------------------------------- the corpus, from what is published


@pytest.fixture(scope="module")
def corpus() -> Project:
    return project.load(Paths())


@pytest.fixture(scope="module")
def published(corpus: Project) -> Known:
    rows = answers.published_rows(corpus.paths)
    return current(rows, corpus.cases, corpus.environments)[0]


def question(of: Case, precision: Precision = Precision.BF16) -> CaseQuestion:
    return CaseQuestion(case=of, workaround="", precision=precision, device=Device.CPU)


def all_searches(corpus: Project, edge: Edge) -> list[Search]:
    """Return a search for each case and each precision in which it fails."""
    return [
        search
        for case_ in corpus.cases.values()
        for precision in failing_precisions(case_, "", corpus.matrix.torch.version)
        for search in searches(question(case_, precision), Sought(edge=edge), corpus.environments)
    ]


def replayed(known: Known) -> Callable[[str, Sequence[Cell]], list[Observation]]:
    """Return runs that say what was published: the same answers, counted as runs."""
    return lambda _environment, cells: [known[cell] for cell in cells]


def from_nothing(search: Search, known: Known) -> Finding:
    asking = ReleaseSearches(searches=[search], known={})
    asking.go(replayed(known))
    return asking.findings()[0]


def answered(found: Finding, known: Known) -> list[str]:
    """Return the releases of a search that answered: where one lacks the model its case declines,
    and a search steps over it to the first that has it.
    """
    asked = found.search.question
    declined = {name for name in found.ran if known[asked.cell(name)].outcome is Outcome.DECLINES}
    return [name for name in found.ran if name not in declined]


def from_evidence(search: Search, known: Known) -> Finding:
    return ReleaseSearches(searches=[search], known=known).findings()[0]


def test_a_variant_fails_in_the_precisions_of_its_own_entries() -> None:
    own = """
[[tool.repromatrix.fails]]
variants = ["other"]
precisions = ["fp32"]
raises = "ValueError"
match = "it breaks"
"""
    both = case('variants = ["one", "other"]' + BREAKS + own)
    found = {each.variant: failing_precisions(each, "", "2.13.0") for each in by_variant(both)}

    assert found == {"one": (Precision.BF16,), "other": (Precision.FP32, Precision.BF16)}


def test_what_fails_under_another_torch_alone_is_no_failing_precision_of_the_releases() -> None:
    under_older = """
[[tool.repromatrix.fails]]
when = ["torch<2.7"]
raises = "TypeError"
match = "it is older"
"""
    both = case(BREAKS + under_older)

    assert failing_precisions(both, "", "2.13.0") == (Precision.BF16,)
    assert failing_precisions(both, "", "2.6.0") == tuple(Precision)


@pytest.mark.parametrize("edge", Edge)
def test_every_break_and_fix_is_known_from_evidence_and_agrees_with_a_search_from_nothing(
    corpus: Project, published: Known, edge: Edge
) -> None:
    for search in all_searches(corpus, edge):
        known = from_evidence(search, published)
        assert not isinstance(known.step, SearchQuestion), search.question.case.name
        if not search.runs:
            continue
        found = from_nothing(search, published)
        assert not isinstance(found.step, SearchQuestion)
        assert (known.step.ending, known.found) == (found.step.ending, found.found)
        assert len(answered(found, published)) <= 9


@pytest.mark.parametrize("edge", Edge)
def test_without_a_hint_of_the_case_halving_alone_agrees_where_both_ends_differ(
    corpus: Project, published: Known, edge: Edge
) -> None:
    compared = 0
    for search in all_searches(corpus, edge):
        blind = dataclasses.replace(search, sought=dataclasses.replace(search.sought, hints=()))
        known = from_evidence(blind, published)
        if not search.runs or known.found is None or len(known.changes) > 1:
            continue
        found = from_nothing(blind, published)
        compared += 1
        assert known.found == found.found
        assert len(answered(found, published)) <= 9

    assert compared > 10


def test_searches_of_two_areas_need_at_most_half_the_environments_together(
    corpus: Project, published: Known
) -> None:
    wishes = [
        search
        for search in all_searches(corpus, Edge.RISE)
        if search.question.case.block.area in {"kv-cache", "loading"}
        and search.question.precision is Precision.BF16
        and search.runs
    ]
    alone = sum(len(from_nothing(search, published).ran) for search in wishes)
    asking = ReleaseSearches(searches=wishes, known={})
    asking.go(replayed(published))

    assert len(wishes) >= 10
    assert len(asking.ran) <= alone // 2
    for found in asking.findings():
        told = from_evidence(found.search, published)
        assert isinstance(told.step, Result)
        # Where a case breaks twice, what others asked decides which of the two is found.
        assert found.found in {told.found, *told.step.again}, found.search.question.case.name


# ------------------------------------------------------- small histories


def history(
    text: str,
    of: Case,
    on: dict[str, Environment],
    *,
    edge: Edge = Edge.RISE,
    any_failure: bool = False,
) -> tuple[Search, Known]:
    """Return the search along the releases, and what each of them does.

    `n` passes, `y` fails as described, `o` fails otherwise, `u` cannot be built, `m` wants memory.
    """
    asked = dataclasses.replace(question(of), any_failure=any_failure)
    (search,) = searches(asked, Sought(edge=edge), on)
    rows: Known = {}
    for place, letter in enumerate(text):
        cell, ran = search.cell(place), provenance(of, on[search.names[place]])
        row = {
            "n": seen(Outcome.PASSES, cell, ran=ran),
            "y": seen(Outcome.FAILS, cell, ran=ran),
            "o": seen(Outcome.FAILS, cell, ran=ran, how=failed("KeyError", "elsewhere")),
            "u": seen(Outcome.UNBUILDABLE, cell, ran=ran),
            "m": seen(Outcome.OUT_OF_MEMORY, cell, ran=ran, how=failed("MemoryError", "")),
        }[letter]
        rows[cell] = row
    return search, rows


def unhinted(search: Search) -> Search:
    return dataclasses.replace(search, sought=dataclasses.replace(search.sought, hints=()))


def summary(finding: Finding) -> tuple[SearchOutcome, tuple[str, str] | None, ExitCode]:
    assert not isinstance(finding.step, SearchQuestion)
    found, axis = finding.found, finding.search.axis
    sides = (axis[found.before].label, axis[found.at].label) if found else None
    return finding.step.ending, sides, finding.code


@pytest.mark.parametrize(
    ("text", "edge", "expected"),
    [
        ("nnyyyy", Edge.RISE, (SearchOutcome.FOUND, ("4.50.0", "4.50.1"), ExitCode.AS_EXPECTED)),
        ("yyyynn", Edge.FALL, (SearchOutcome.FOUND, ("4.50.2", "4.51.0"), ExitCode.AS_EXPECTED)),
        ("nuuyyy", Edge.RISE, (SearchOutcome.FOUND, ("4.49.0", "4.50.2"), ExitCode.UNDECIDED)),
        ("nnoyyy", Edge.RISE, (SearchOutcome.FOUND, ("4.50.0", "4.50.2"), ExitCode.UNDECIDED)),
        ("nnnnnn", Edge.RISE, (SearchOutcome.NEVER, None, ExitCode.NOT_REPRODUCED)),
        ("nnnnnn", Edge.FALL, (SearchOutcome.NEVER, None, ExitCode.NOT_REPRODUCED)),
        ("yyyyyy", Edge.RISE, (SearchOutcome.ALWAYS, None, ExitCode.FAILS_ON_BOTH_SIDES)),
        ("yyyyyy", Edge.FALL, (SearchOutcome.ALWAYS, None, ExitCode.FAILS_ON_BOTH_SIDES)),
        ("oooooo", Edge.RISE, (SearchOutcome.UNDECIDED, None, ExitCode.UNDECIDED)),
        ("oonyyy", Edge.RISE, (SearchOutcome.FOUND, ("4.50.1", "4.50.2"), ExitCode.AS_EXPECTED)),
        ("oyyyyy", Edge.RISE, (SearchOutcome.ALWAYS, None, ExitCode.UNDECIDED)),
        ("nnnyoo", Edge.RISE, (SearchOutcome.FOUND, ("4.50.1", "4.50.2"), ExitCode.AS_EXPECTED)),
        ("nnnnoo", Edge.RISE, (SearchOutcome.NEVER, None, ExitCode.UNDECIDED)),
        ("yyynoo", Edge.FALL, (SearchOutcome.FOUND, ("4.50.1", "4.50.2"), ExitCode.AS_EXPECTED)),
        ("yyyyoo", Edge.FALL, (SearchOutcome.ALWAYS, None, ExitCode.UNDECIDED)),
        ("uuuuuu", Edge.RISE, (SearchOutcome.UNDECIDED, None, ExitCode.UNDECIDED)),
    ],
)
def test_endings_and_what_they_tell_a_script(
    text: str, edge: Edge, expected: tuple[SearchOutcome, tuple[str, str] | None, ExitCode]
) -> None:
    search, known = history(text, case(BREAKS), environments(*RELEASES), edge=edge)

    assert summary(from_nothing(unhinted(search), known)) == expected


@pytest.mark.parametrize(
    ("edge", "ran", "sides"),
    [
        (Edge.RISE, ("4.50.0", "4.50.1"), ("4.50.1", "4.51.0")),
        (Edge.FALL, ("4.51.1",), ("4.51.1", "5.0.0")),
    ],
)
def test_where_both_ends_pass_the_first_release_of_each_line_is_asked_newest_first(
    edge: Edge, ran: tuple[str, ...], sides: tuple[str, str]
) -> None:
    names = ("4.49.0", "4.50.0", "4.50.1", "4.51.0", "4.51.1", "5.0.0", "5.0.1", "5.1.0")
    search, known = history("nnnyynnn", case(), environments(*names), edge=edge)
    finding = from_nothing(search, known)

    assert search.sought.probes == (7, 5, 3, 1, 0)
    assert finding.ran == ("5.1.0", "4.49.0", "5.0.0", "4.51.0", *ran)
    assert summary(finding) == (SearchOutcome.FOUND, sides, ExitCode.AS_EXPECTED)
    assert finding.ends_pass


def test_a_case_that_fails_since_its_first_release_is_answered() -> None:
    of = case(BREAKS, dependencies=("torch", "transformers>=4.50"))
    search, known = history("yyynn", of, environments(*RELEASES))

    assert list(search.older) == ["4.49.0"]
    assert summary(from_nothing(search, known)) == (
        SearchOutcome.ALWAYS,
        None,
        ExitCode.AS_EXPECTED,
    )


def test_another_failure_is_bad_only_where_any_is() -> None:
    of, on = case(BREAKS), environments(*RELEASES)
    told, rows = history("nnooyy", of, on)
    any_, _ = history("nnooyy", of, on, any_failure=True)

    assert summary(from_nothing(unhinted(told), rows))[1] == ("4.50.0", "4.51.0")
    assert summary(from_nothing(unhinted(any_), rows))[1] == ("4.50.0", "4.50.1")


def test_a_script_that_describes_nothing_is_searched_for_the_failure_seen_first() -> None:
    search, known = history("nnoyyy", case(), environments(*RELEASES))
    found = from_nothing(search, known)

    assert summary(found) == (SearchOutcome.FOUND, ("4.50.0", "4.50.2"), ExitCode.UNDECIDED)
    assert found.search.question.signature == failed().signature


def test_running_out_of_memory_is_not_the_failure_that_a_script_is_searched_for() -> None:
    search, known = history("nnyyym", case(), environments(*RELEASES))
    found = from_nothing(search, known)

    assert summary(found) == (SearchOutcome.FOUND, ("4.50.0", "4.50.1"), ExitCode.AS_EXPECTED)
    assert found.search.question.signature == failed().signature


def test_what_a_case_expects_is_asked_early_and_only_once() -> None:
    search, known = history("nyyynn", case(BREAKS), environments(*RELEASES))
    found = from_nothing(search, known)

    assert search.sought.hints == (1, 0)
    assert found.ran == ("4.51.1", "4.49.0", "4.50.0")


def test_sources_that_contradict_each_other_are_asked_again_and_named() -> None:
    of, on = case(BREAKS), environments(*RELEASES)
    search, known = history("nyyynn", of, on)
    cell = search.cell(1)
    other = seen(Outcome.PASSES, cell, ran=provenance(of, on["4.50.0"]))
    rows, contested = current([*known.values(), other], {of.name: of}, on)
    asking = ReleaseSearches(searches=[search], known=rows, contested=contested)
    asking.go(replayed(known))
    (found,) = asking.findings()

    assert (list(contested), found.ran, list(found.contested)) == ([cell], ("4.50.0",), [1])
    assert summary(found)[1] == ("4.49.0", "4.50.0")


def test_what_the_machine_decided_is_asked_again() -> None:
    of, on = case(BREAKS), environments(*RELEASES)
    search, _ = history("nyyynn", of, on)
    row = seen(Outcome.OUT_OF_MEMORY, search.cell(0), ran=provenance(of, on["4.49.0"]))

    assert judged(current([row], {of.name: of}, on)[0]) == {}


def test_an_interrupted_search_keeps_what_it_learned_and_goes_on_from_there() -> None:
    search, known = history("nnnyyy", case(BREAKS), environments(*RELEASES))
    search = unhinted(search)
    runs: list[str] = []

    def run(environment: str, cells: Sequence[Cell]) -> Iterable[Observation]:
        if len(runs) == 2:
            raise Interrupted
        runs.append(environment)
        return [known[cell] for cell in cells]

    asking = ReleaseSearches(searches=[search], known={})
    with pytest.raises(Interrupted):
        asking.go(run)
    (so_far,) = asking.findings()
    again = ReleaseSearches(searches=[search], known=dict(so_far.known))
    again.go(replayed(known))

    assert (so_far.ran, so_far.code) == (("4.51.1", "4.49.0"), ExitCode.UNDECIDED)
    assert again.findings()[0].ran == ("4.50.1", "4.50.2")


def test_an_environment_of_which_nothing_comes_back_is_asked_once() -> None:
    search, known = history("nnyyyy", case(BREAKS), environments(*RELEASES))
    asking = ReleaseSearches(searches=[unhinted(search)], known={})
    silent = search.cell(2)
    asking.go(lambda _, cells: [known[cell] for cell in cells if cell != silent])

    assert summary(asking.findings()[0])[1:] == (("4.50.0", "4.50.2"), ExitCode.UNDECIDED)


def test_of_several_answers_a_script_is_told_whether_all_are_decided() -> None:
    of, on = case(BREAKS), environments(*RELEASES)
    found = [from_nothing(*history(text, of, on)) for text in ("yyyyyy", "nnnnnn", "nnoyyy")]

    assert together(found[:1]) is ExitCode.FAILS_ON_BOTH_SIDES
    assert together(found[:2]) is ExitCode.AS_EXPECTED
    assert together(found) is ExitCode.UNDECIDED
