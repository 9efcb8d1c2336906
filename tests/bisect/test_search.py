"""The searches, over histories that hypothesis thinks of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.runner.bisect.search import (
    Answer,
    Edge,
    Minimal,
    Open,
    Result,
    SearchOutcome,
    SearchQuestion,
    Sought,
    Transition,
    agreed,
    best,
    changes,
    gain,
    look,
    served,
    smallest,
)

YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN
LETTERS = {"n": NO, "y": YES, "?": UNKNOWN}

histories = st.lists(st.sampled_from(Answer), min_size=1, max_size=40)
known_histories = st.lists(st.sampled_from([YES, NO]), min_size=1, max_size=40)
edges = st.sampled_from(Edge)


P = TypeVar("P")


class AnswerCache(Generic[P]):
    """An oracle that is asked once per point; `asked` lists what it was asked, in order."""

    def __init__(self, ask: Callable[[P], Answer], known: Mapping[P, Answer] | None = None) -> None:
        """Begin with what is known already; those points are never asked."""
        self._ask = ask
        self.answers: dict[P, Answer] = dict(known or {})
        self.asked: list[P] = []

    def __call__(self, point: P) -> Answer:
        """Return the answer, asking for it only if it is not known."""
        if point not in self.answers:
            self.asked.append(point)
            self.answers[point] = self._ask(point)
        return self.answers[point]


def read(text: str) -> list[Answer]:
    return [LETTERS[letter] for letter in text]


def find(count: int, oracle: AnswerCache[int], sought: Sought) -> Result:
    while isinstance(step := look(count, oracle.answers, sought), SearchQuestion):
        oracle(step.point)
    return step


def search(history: list[Answer], sought: Sought | None = None) -> tuple[Result, list[int]]:
    """Return what a search finds in a history, and the points that it asked for."""
    memory: AnswerCache[int] = AnswerCache(lambda point: history[point])
    result = find(len(history), memory, sought or Sought())
    return result, memory.asked


def rise(before: int, at: int) -> Transition:
    return Transition(before=before, at=at, edge=Edge.RISE)


def fall(before: int, at: int) -> Transition:
    return Transition(before=before, at=at, edge=Edge.FALL)


@given(st.integers(2, 400), st.data(), edges)
def test_a_history_that_changes_once_costs_two_ends_and_the_halvings(
    count: int, data: st.DataObject, edge: Edge
) -> None:
    first = data.draw(st.integers(1, count - 1))
    before, after = edge.sides
    result, asked = search([before] * first + [after] * (count - first), Sought(edge=edge))

    assert result == Result(
        ending=SearchOutcome.FOUND, found=Transition(before=first - 1, at=first, edge=edge)
    )
    assert len(asked) <= math.ceil(math.log2(max(count - 1, 1))) + 2
    assert asked[:2] == [count - 1, 0]


@given(st.integers(2, 100), st.data())
def test_the_announced_number_of_questions_is_never_exceeded(
    count: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, count))
    history = [NO] * first + [YES] * (count - first)
    answers: dict[int, Answer] = {}
    left = count + 2
    while isinstance(step := look(count, answers, Sought()), SearchQuestion):
        assert step.at_most < left
        left = step.at_most
        answers[step.point] = history[step.point]

    assert isinstance(step, Result)


@given(histories, edges)
def test_what_is_found_is_a_change_with_nothing_but_silence_in_it(
    history: list[Answer], edge: Edge
) -> None:
    result, asked = search(history, Sought(edge=edge))

    assert len(asked) == len(set(asked))
    if result.found is not None:
        sides = (history[result.found.before], history[result.found.at])
        assert (result.ending, sides) == (SearchOutcome.FOUND, edge.sides)
        assert {history[point] for point in result.found.between} <= {UNKNOWN}
        assert set(result.found.between) <= set(asked)


@given(histories)
def test_where_nothing_is_found_the_ends_say_why(history: list[Answer]) -> None:
    result, asked = search(history)
    said = [history[point] for point in sorted(asked) if history[point] is not UNKNOWN]

    match result.ending:
        case SearchOutcome.FOUND:
            assert YES in said
        case SearchOutcome.NEVER:
            assert (said[0], said[-1]) == (NO, NO)
        case SearchOutcome.ALWAYS:
            assert said[0] is YES
        case SearchOutcome.UNDECIDED:
            assert said == []


@given(histories, edges)
def test_asking_every_point_finds_the_first_change_and_all_others(
    history: list[Answer], edge: Edge
) -> None:
    result, asked = search(history, Sought(edge=edge, every=True))
    truth = [one for one in changes(dict(enumerate(history))) if one.edge is edge]

    assert sorted(asked) == list(range(len(history)))
    if result.found is None:
        assert list(result.again) == truth or result.ending is not SearchOutcome.ALWAYS
    else:
        assert [result.found, *result.again] == truth


@given(known_histories, edges)
def test_right_hints_find_the_first_change_of_any_history_in_four_questions(
    history: list[Answer], edge: Edge
) -> None:
    truth = [one for one in changes(dict(enumerate(history))) if one.edge is edge]
    hints = (truth[0].at, truth[0].before) if truth else ()
    result, asked = search(history, Sought(edge=edge, hints=hints))

    if edge is Edge.RISE and history[0] is YES:
        assert result.ending is SearchOutcome.ALWAYS
    else:
        assert result.found == (truth[0] if truth else None)
    assert len(asked) <= 4 or not truth


@given(histories, st.lists(st.integers(0, 39), max_size=4))
def test_wrong_hints_change_no_monotone_answer(history: list[Answer], hints: list[int]) -> None:
    monotone = sorted(history, key=[NO, UNKNOWN, YES].index)
    hinted, _ = search(monotone, Sought(hints=tuple(hints)))

    assert (hinted.ending, hinted.found) == (
        search(monotone)[0].ending,
        search(monotone)[0].found,
    )


@given(histories, st.data())
def test_what_is_known_is_never_asked_and_changes_no_monotone_answer(
    history: list[Answer], data: st.DataObject
) -> None:
    monotone = sorted(history, key=[NO, UNKNOWN, YES].index)
    known = data.draw(st.sets(st.integers(0, len(monotone) - 1)))
    memory: AnswerCache[int] = AnswerCache(
        lambda point: monotone[point], {point: monotone[point] for point in known}
    )
    result = find(len(monotone), memory, Sought())

    assert not known & set(memory.asked)
    assert result == search(monotone)[0]


@pytest.mark.parametrize(
    ("text", "edge", "expected"),
    [
        ("nnyy", Edge.RISE, Result(ending=SearchOutcome.FOUND, found=rise(1, 2))),
        ("yynn", Edge.FALL, Result(ending=SearchOutcome.FOUND, found=fall(1, 2))),
        ("?n??y?", Edge.RISE, Result(ending=SearchOutcome.FOUND, found=rise(1, 4))),
        ("yyyy", Edge.RISE, Result(ending=SearchOutcome.ALWAYS)),
        ("yyyy", Edge.FALL, Result(ending=SearchOutcome.ALWAYS)),
        ("nnnn", Edge.RISE, Result(ending=SearchOutcome.NEVER)),
        ("nnnn", Edge.FALL, Result(ending=SearchOutcome.NEVER)),
        ("n", Edge.RISE, Result(ending=SearchOutcome.NEVER)),
        ("y", Edge.RISE, Result(ending=SearchOutcome.ALWAYS)),
        ("????", Edge.RISE, Result(ending=SearchOutcome.UNDECIDED)),
    ],
)
def test_endings(text: str, edge: Edge, expected: Result) -> None:
    assert search(read(text), Sought(edge=edge))[0] == expected


def test_a_history_that_changes_more_than_once_says_so_where_it_was_seen() -> None:
    every, _ = search(read("nyynnyn"), Sought(every=True))
    memory: AnswerCache[int] = AnswerCache(lambda point: read("nnnynnny")[point], {3: YES, 5: NO})

    assert every == Result(ending=SearchOutcome.FOUND, found=rise(0, 1), again=(rise(4, 5),))
    assert find(8, memory, Sought()) == Result(
        ending=SearchOutcome.FOUND, found=rise(2, 3), again=(rise(5, 7),)
    )


@given(known_histories, edges, st.data())
def test_where_both_ends_say_no_a_probe_that_says_yes_is_searched_to_its_edge(
    history: list[Answer], edge: Edge, data: st.DataObject
) -> None:
    history = [NO, *history, NO]
    probes = data.draw(st.lists(st.integers(0, len(history) - 1), unique=True))
    result, asked = search(history, Sought(edge=edge, probes=tuple(probes)))

    hit = next((probe for probe in probes if history[probe] is YES), None)
    if hit is None:
        assert result == Result(ending=SearchOutcome.NEVER)
        assert set(asked) == {0, len(history) - 1, *probes}
        return
    tried = {0, len(history) - 1, *probes[: probes.index(hit) + 1]}
    assert set(asked[: len(tried)]) == tried
    assert result.found is not None
    assert (history[result.found.before], history[result.found.at]) == edge.sides
    assert result.found.at == result.found.before + 1
    spell = (result.found.at, hit) if edge is Edge.RISE else (hit, result.found.before)
    assert spell[0] <= spell[1]
    assert len(asked) <= len(tried) + math.ceil(math.log2(len(history)))


@given(histories, edges, st.lists(st.integers(0, 39), max_size=6), st.data())
def test_probes_cost_nothing_where_an_end_says_yes(
    history: list[Answer], edge: Edge, probes: list[int], data: st.DataObject
) -> None:
    history[data.draw(st.sampled_from([0, -1]))] = YES
    probed = Sought(edge=edge, probes=tuple(probes))

    assert search(history, probed) == search(history, Sought(edge=edge))


@given(known_histories, st.permutations(range(20)))
def test_the_announced_number_holds_from_the_first_probe_on(
    history: list[Answer], probes: list[int]
) -> None:
    history = [NO, *history, NO]
    answers = {0: NO, len(history) - 1: NO}
    left = len(history) + 40
    sought = Sought(probes=tuple(probes))
    while isinstance(step := look(len(history), answers, sought), SearchQuestion):
        assert step.at_most < left
        left = step.at_most
        answers[step.point] = history[step.point]

    assert left >= 1


def test_where_nothing_answers_few_points_are_asked() -> None:
    result, asked = search([UNKNOWN] * 76)

    assert result == Result(ending=SearchOutcome.UNDECIDED)
    assert len(asked) <= 14


@given(st.integers(0, 30), st.integers(1, 30), edges)
def test_behind_silent_ends_the_same_is_found_as_without_them(
    silent: int, first: int, edge: Edge
) -> None:
    before, after = edge.sides
    history = [UNKNOWN] * silent + [before] * first + [after] * first + [UNKNOWN] * silent
    result, _ = search(history, Sought(edge=edge))

    change = Transition(before=silent + first - 1, at=silent + first, edge=edge)
    assert result.found == change or (silent > first and result.found is None)


@given(histories, edges)
def test_an_end_that_says_always_or_never_lies_beside_the_silence(
    history: list[Answer], edge: Edge
) -> None:
    result, asked = search(history, Sought(edge=edge))
    said = [point for point in sorted(asked) if history[point] is not UNKNOWN]
    low, high = (said[0], said[-1]) if said else (0, len(history) - 1)

    if result.ending is SearchOutcome.NEVER or (result.ending, edge) == (
        SearchOutcome.ALWAYS,
        Edge.RISE,
    ):
        assert low == 0 or low - 1 in asked
    if result.ending is SearchOutcome.NEVER or (result.ending, edge) == (
        SearchOutcome.ALWAYS,
        Edge.FALL,
    ):
        assert high + 1 == len(history) or high + 1 in asked


def test_a_long_silence_is_left_in_few_steps() -> None:
    history = [NO] * 20 + [UNKNOWN] * 60 + [NO] * 10 + [YES] * 10
    result, asked = search(history)

    assert result.found == rise(89, 90)
    assert len(asked) <= 16


@given(st.sampled_from(Answer), st.sampled_from(Answer))
def test_an_oracle_that_contradicts_itself_has_said_nothing(first: Answer, second: Answer) -> None:
    said = {first, second} - {UNKNOWN}

    assert agreed({0: first}, 0, second) is (said.pop() if len(said) == 1 else UNKNOWN)


# ---------------------------------------------------------------------- sets

SETS = st.integers(1, 12).flatmap(
    lambda size: st.tuples(
        st.just(size),
        st.sets(st.frozensets(st.integers(0, size - 1), min_size=1, max_size=4), min_size=1),
    )
)


def contains(causes: set[frozenset[int]], tried: frozenset[int]) -> Answer:
    return YES if any(cause <= tried for cause in causes) else NO


@given(SETS)
def test_a_set_is_shrunk_to_one_of_its_causes(given_: tuple[int, set[frozenset[int]]]) -> None:
    size, causes = given_
    found = smallest(range(size), lambda tried: contains(causes, tried))
    least = {cause for cause in causes if not any(other < cause for other in causes)}

    assert found is not None
    assert frozenset(found.elements) in least


@given(st.integers(1, 8), st.data())
def test_whatever_the_oracle_says_the_set_is_one_minimal(size: int, data: st.DataObject) -> None:
    whole = frozenset(range(size))
    said: dict[frozenset[int], Answer] = {whole: YES}

    def ask(tried: frozenset[int]) -> Answer:
        if tried not in said:
            said[tried] = data.draw(st.sampled_from(Answer))
        return said[tried]

    found = smallest(range(size), ask)

    assert found is not None
    kept = frozenset(found.elements)
    assert said[kept] is YES
    smaller = {kept - {one} for one in kept} - {frozenset()}
    assert [one for one in smaller if said.get(one, UNKNOWN) is YES] == []
    assert smaller <= set(said)


def test_sets_without_an_answer_are_named() -> None:
    def ask(tried: frozenset[str]) -> Answer:
        if {"a", "b"} <= tried:
            return YES
        return UNKNOWN if tried == {"a"} else NO

    found = smallest("abcd", ask)

    assert found == Minimal(elements=("a", "b"), unknown=(frozenset("a"),))


def test_the_likeliest_is_tried_first_and_alone() -> None:
    asked: list[frozenset[str]] = []

    def ask(tried: frozenset[str]) -> Answer:
        asked.append(tried)
        return YES if "a" in tried else NO

    assert smallest("abcdefgh", ask) == Minimal(elements=("a",), unknown=())
    assert asked == [frozenset("abcdefgh"), frozenset("a")]


# ---------------------------------------------------------------------- many


def opened(points: str, answers: dict[int, Answer]) -> Open[str]:
    question = look(len(points), answers, Sought())
    assert isinstance(question, SearchQuestion)
    return Open(points, answers, question)


def test_the_point_that_serves_most_searches_is_asked_next() -> None:
    one = opened("abcdefgh", {0: NO, 7: YES})
    two = opened("bcdefghi", {0: NO, 7: YES})

    assert best([one]) == "d"
    assert best([two]) == "e"
    assert best([one, two]) == "e"
    assert (served(one, "e"), served(one, "a"), served(one, "i")) == (True, False, False)


def test_a_search_learns_nothing_from_what_is_known() -> None:
    one = opened("abcdefgh", {0: NO, 7: YES, 3: NO})

    assert [round(gain(one, place), 2) for place in range(8)] == [0, 0, 0, 0, 0.81, 1, 0.81, 0]


def together(histories: list[list[Answer]]) -> tuple[list[Result], int]:
    """Search histories that share their points; return what was found, and the rounds."""
    answers: list[dict[int, Answer]] = [{} for _ in histories]
    rounds = 0
    while True:
        steps = [
            look(len(one), known, Sought()) for one, known in zip(histories, answers, strict=True)
        ]
        asking = {
            number: Open(range(len(histories[number])), answers[number], step)
            for number, step in enumerate(steps)
            if isinstance(step, SearchQuestion)
        }
        if not asking:
            return [step for step in steps if isinstance(step, Result)], rounds
        point = best(asking.values())
        wanted = [number for number, one in asking.items() if served(one, point)]
        assert wanted
        rounds += 1
        for number in wanted:
            answers[number][point] = histories[number][point]


@given(st.lists(st.tuples(st.integers(2, 40), st.integers(0, 39)), min_size=1, max_size=6))
def test_searches_that_share_points_end_as_they_do_alone(wanted: list[tuple[int, int]]) -> None:
    histories = [
        [NO] * min(first, count) + [YES] * max(0, count - first) for count, first in wanted
    ]

    assert together(histories)[0] == [search(history)[0] for history in histories]


def test_searches_that_share_points_need_fewer_together() -> None:
    histories = [[NO] * first + [YES] * (76 - first) for first in range(30, 50, 2)]
    alone = sum(len(search(history)[1]) for history in histories)

    assert together(histories)[1] <= alone // 3
