"""In which places the failures of an entry happen."""

from __future__ import annotations

from factories import BREAKS, PLACES, case, cell, environments, failed, provenance, seen

from repromatrix.runner.judging.places import apart, by_place, distinct, grouped, never_seen, told
from repromatrix.runner.judging.verdicts import Judged, elsewhere, judge_all
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.observation import Failed
from repromatrix.runner.model.outcomes import Outcome, Verdict

HELD = environments("4.50.0", "4.50.1", "4.50.2")
ATTENTION, BLOCK, MOVED = (PLACES[letter].place for letter in "abm")


def _stating(*places: str) -> Case:
    return case(BREAKS + f"where = {[*places]}\n")


def _judged(of: Case, *hows: Failed) -> tuple[Judged, ...]:
    rows = [
        seen(Outcome.FAILS, cell(name), how=how, ran=provenance(of, HELD[name]))
        for name, how in zip(HELD, hows, strict=False)
    ]
    return judge_all(rows, {of.name: of}, HELD)


def test_the_right_words_in_another_function_are_another_failure() -> None:
    judged = _judged(_stating(ATTENTION), PLACES["a"], PLACES["b"], PLACES["m"])

    assert [(row.verdict, elsewhere(row)) for row in judged] == [
        (Verdict.AS_EXPECTED, ""),
        (Verdict.CHANGED, BLOCK),
        (Verdict.CHANGED, MOVED),
    ]

    either = _judged(_stating(ATTENTION, MOVED), PLACES["a"], PLACES["b"], PLACES["m"])
    assert [row.verdict is Verdict.AS_EXPECTED for row in either] == [True, False, True]


def test_without_a_place_words_alone_decide() -> None:
    of_words = _judged(case(BREAKS), PLACES["a"], PLACES["b"])
    of_rows = _judged(_stating(ATTENTION), failed(), failed("KeyError"))

    assert {row.verdict for row in of_words} == {Verdict.AS_EXPECTED}
    assert [row.verdict for row in of_rows] == [Verdict.AS_EXPECTED, Verdict.CHANGED]


def test_the_words_are_asked_for_in_the_right_place_too() -> None:
    (row,) = _judged(_stating(ATTENTION), failed("KeyError", "'x'", ATTENTION))

    assert (row.verdict, elsewhere(row)) == (Verdict.CHANGED, "")


def test_a_change_of_place_makes_nothing_stale() -> None:
    assert case(BREAKS).digest == _stating(ATTENTION).digest


def test_places_are_one_where_the_same_line_fails_in_a_function_of_the_same_name() -> None:
    lines = {ATTENTION: {"a(x)"}, MOVED: {"a(x)", "b(x)"}, BLOCK: {"c(x)"}, "x:Y.g": {"a(x)"}}

    assert grouped(lines) == [(ATTENTION, MOVED), (BLOCK,), ("x:Y.g",)]
    assert grouped(lines, [(BLOCK, ATTENTION)]) == [(BLOCK, ATTENTION, MOVED), ("x:Y.g",)]


def test_lines_that_are_not_known_are_not_the_same() -> None:
    assert grouped({ATTENTION: {""}, MOVED: {""}}) == [(ATTENTION,), (MOVED,)]


def test_a_place_without_a_class_gives_way_to_the_same_with_it() -> None:
    assert distinct(["a:f", "a:B.f", "a:C.f", "b:f"]) == ("a:B.f", "a:C.f", "b:f")


def test_the_cells_of_an_entry_are_told_apart_by_place() -> None:
    plain = case(BREAKS)
    judged = _judged(plain, PLACES["a"], PLACES["b"], PLACES["m"])
    (entry,) = plain.block.fails

    assert {place: len(rows) for place, rows in by_place(entry, judged).items()} == {
        ATTENTION: 1,
        BLOCK: 1,
        MOVED: 1,
    }
    assert apart(entry, judged) == [[judged[0], judged[2]], [judged[1]]]
    assert told(entry, judged) == (ATTENTION, BLOCK, MOVED)


def test_a_place_that_no_result_has_is_named() -> None:
    stating = _stating(ATTENTION, "toy.gone:f")

    assert never_seen(stating, _judged(stating, PLACES["a"], PLACES["b"])) == {0: ("toy.gone:f",)}
    assert never_seen(stating, _judged(stating, PLACES["b"])) == {0: (ATTENTION, "toy.gone:f")}
    assert never_seen(stating, _judged(stating, failed())) == {}
    assert never_seen(case(BREAKS), _judged(case(BREAKS), PLACES["a"])) == {}


def test_stale_results_say_nothing_of_places() -> None:
    other = case(BREAKS, code='"""Another toy."""\n')
    rows = [row.seen for row in _judged(other, PLACES["b"])]
    stating = _stating(ATTENTION)

    assert never_seen(stating, judge_all(rows, {stating.name: stating}, HELD)) == {}
