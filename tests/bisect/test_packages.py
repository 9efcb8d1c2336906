"""Which packages make the difference: the search over mixtures, and what is said of it."""

from __future__ import annotations

import dataclasses
import json
import re
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case, cell, environment, failed, provenance, seen
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.runner.bisect import package_runs
from repromatrix.runner.bisect.oracle import CaseQuestion
from repromatrix.runner.bisect.package_runs import (
    MixtureOracle,
    UnresolvableError,
    in_short,
    likely,
)
from repromatrix.runner.bisect.packages import (
    Blame,
    BlameOutcome,
    MixtureTrial,
    PackageChange,
    difference,
    mixture_name,
    search,
)
from repromatrix.runner.bisect.render_packages import document, sentence
from repromatrix.runner.bisect.search import Answer
from repromatrix.runner.document import write
from repromatrix.runner.environments import building
from repromatrix.runner.environments.building import Built, UnbuildableError
from repromatrix.runner.errors import ExitCode, Interrupted, RunnerError
from repromatrix.runner.execution import run
from repromatrix.runner.execution.events import Terms
from repromatrix.runner.model.lock import Lock, read_lock
from repromatrix.runner.model.observation import LOCAL, MERGED
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kept import Expected

    from repromatrix.runner.bisect.packages import EnvironmentDifference, Taken
    from repromatrix.runner.execution.events import Ready
    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.cell import Environment
    from repromatrix.runner.model.matrix import Matrix
    from repromatrix.runner.model.observation import Observation
    from repromatrix.runner.paths import Paths

YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN
PINS = {"accelerate": "1.6.0", "peft": "0.15.1", "numpy": "2.2.4"}


def holding(called: str, pins: Mapping[str, str]) -> Environment:
    """Return an environment that holds also what is said."""
    held = environment(called)
    return dataclasses.replace(held, pins={**held.pins, **pins})


GOOD = holding("4.51.0", PINS)
BAD = environment("4.50.3", accelerate="1.5.2", peft="0.14.0", numpy="2.2.3")
ENDS = difference(GOOD, BAD)
WORDS = {YES: Outcome.FAILS, NO: Outcome.PASSES}


def world(
    ends: EnvironmentDifference,
    causes: Iterable[Collection[str]],
    impossible: Callable[[Taken], bool] = lambda _: False,
) -> Callable[[Taken], MixtureTrial]:
    """Return an oracle: bad is what takes all of one of the causes from the bad end."""

    def ask(taken: Taken) -> MixtureTrial:
        called = mixture_name(ends, taken)
        if impossible(taken) and taken not in {frozenset(), ends.everything}:
            reason = "cannot be resolved: transformers==4.50.3 depends on peft<0.15"
            return MixtureTrial(taken=taken, name=called, answer=UNKNOWN, reason=reason)
        answer = YES if any(taken.issuperset(cause) for cause in causes) else NO
        holds = holding(called, {one.package: one.version(taken) for one in ends.changes})
        row = seen(WORDS[answer])
        return MixtureTrial(taken=taken, name=called, answer=answer, seen=row, environment=holds)

    return ask


def found(
    causes: Iterable[Collection[str]], impossible: Callable[[Taken], bool] = lambda _: False
) -> Blame:
    return search(ENDS, world(ENDS, causes, impossible))


def packages(blame: Blame) -> tuple[tuple[str, ...], tuple[str, ...]]:
    assert blame.breaks
    assert blame.fixes
    return blame.breaks.packages, blame.fixes.packages


def test_the_changes_stand_in_order_of_likelihood_and_torch_is_none() -> None:
    good = environment("4.51.0", zlib="1", accelerate="1.6.0", httpx="1", torch="2.13.0+cpu")
    bad = environment("4.50.3", zlib="2", accelerate="1.6.0", requests="2")

    found = difference(good, bad)

    assert found.changes == (
        PackageChange(package="transformers", good="4.51.0", bad="4.50.3"),
        PackageChange(package="zlib", good="1", bad="2"),
    )
    assert found.along == {"httpx": "1", "requests": "2"}
    assert difference(good, bad, ("zlib",)).packages == ("zlib", "transformers")


def test_what_the_name_of_one_end_asks_for_is_a_change_of_its_own() -> None:
    good, bad = environment("4.51.0"), environment("4.51.0+timm", timm="1.0", transformers="4.51.0")

    assert difference(good, bad).changes == (PackageChange(package="timm", good="", bad="1.0"),)


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ({"accelerate"}, "4.51.0+accelerate1.5.2"),
        ({"accelerate", "peft", "numpy"}, "4.50.3+transformers4.51.0"),
        ({"accelerate", "peft"}, "4.51.0+accelerate1.5.2+peft0.14.0"),
        (set(), "4.51.0"),
        ({"transformers", "accelerate", "peft", "numpy"}, "4.50.3"),
    ],
)
def test_a_mixture_is_named_after_the_nearer_end(taken: set[str], expected: str) -> None:
    assert mixture_name(ENDS, frozenset(taken)) == expected


def test_a_mixture_of_many_is_named_after_its_digest_and_one_of_a_pair_keeps_its_parts() -> None:
    many = {f"package{number}": "1" for number in range(7)}
    ends = difference(holding("4.51.0", many), holding("4.51.0", dict.fromkeys(many, "2")))
    pair = difference(
        environment("4.51.0+peft0.15.2+timm", transformers="4.51.0", peft="0.15.2", numpy="1"),
        environment("4.50.3+timm", transformers="4.50.3", peft="0.15.2", numpy="2"),
    )

    assert re.fullmatch(r"4\.51\.0@[0-9a-f]{8}", mixture_name(ends, frozenset([*many][:3])))
    assert len({mixture_name(ends, frozenset(three)) for three in combinations(many, 3)}) == 35
    assert mixture_name(pair, frozenset({"numpy"})) == "4.51.0+peft0.15.2+numpy2+timm"


def test_packages_that_no_environment_tells_apart_are_both_named_and_nothing_is_decided() -> None:
    apart = {"transformers", "peft"}
    blame = found([{"transformers"}], lambda taken: len(taken & apart) == 1)

    assert packages(blame) == (("transformers", "peft"), ("transformers", "peft"))
    assert blame.ending is BlameOutcome.UNDECIDED
    # The reason of the resolver names what has to come with it: no other package is tried.
    assert len(blame.trials) == 8


def end(taken: Taken, answer: Answer, row: Observation | None = None) -> MixtureTrial:
    return MixtureTrial(taken=taken, name="4.50.3" if taken else "4.51.0", answer=answer, seen=row)


WRONG_ENDS = {
    "the good end is bad, too": (YES, YES, BlameOutcome.GOOD_IS_BAD),
    "the ends are the wrong way round": (YES, NO, BlameOutcome.GOOD_IS_BAD),
    "the bad end is good": (NO, NO, BlameOutcome.BAD_IS_GOOD),
    "an end could not be judged": (NO, UNKNOWN, BlameOutcome.SILENT),
}


def with_ends(good: Answer, bad: Answer) -> Blame:
    rows = {
        YES: seen(Outcome.FAILS),
        NO: seen(Outcome.PASSES),
        UNKNOWN: seen(Outcome.FAILS, how=failed("KeyError", "elsewhere")),
    }
    return search(
        ENDS, lambda taken: end(taken, bad, rows[bad]) if taken else end(taken, good, rows[good])
    )


@pytest.mark.parametrize("title", WRONG_ENDS)
def test_ends_that_are_not_what_they_were_said_to_be_end_the_search(title: str) -> None:
    good, bad, ending = WRONG_ENDS[title]
    blame = with_ends(good, bad)

    assert (blame.ending, len(blame.trials)) == (ending, 2)


def test_an_environment_held_against_itself_is_asked_once() -> None:
    ends = difference(GOOD, GOOD)
    blame = search(ends, world(ends, []))

    assert [trial.name for trial in blame.trials] == ["4.51.0"]


names = st.sampled_from([f"package-{letter}" for letter in "abcdefgh"])


@st.composite
def worlds(draw: st.DrawFn) -> tuple[EnvironmentDifference, list[frozenset[str]]]:
    held = sorted(draw(st.sets(names, min_size=1)))
    ends = difference(
        holding("4.51.0", {"transformers": "4", **dict.fromkeys(held, "1")}),
        holding("4.50.3", {"transformers": "4", **dict.fromkeys(held, "2")}),
    )
    cause = st.frozensets(st.sampled_from(held), min_size=1, max_size=3)
    return ends, draw(st.lists(cause, min_size=1, max_size=3))


@given(worlds())
def test_what_is_named_suffices_and_with_one_package_less_it_does_not(
    drawn: tuple[EnvironmentDifference, list[frozenset[str]]],
) -> None:
    ends, causes = drawn
    ask = world(ends, causes)
    blame = search(ends, ask)
    breaks, heals = map(frozenset, packages(blame))

    assert ask(breaks).answer is YES
    assert ask(ends.everything - heals).answer is NO
    assert all(ask(breaks - {one}).answer is NO for one in breaks)
    assert all(ask(ends.everything - heals | {one}).answer is YES for one in heals)
    assert blame.ending is BlameOutcome.FOUND


@given(worlds(), st.sets(st.frozensets(names, max_size=8), max_size=60))
def test_no_mixture_is_asked_twice_and_what_has_no_answer_decides_nothing(
    drawn: tuple[EnvironmentDifference, list[frozenset[str]]], silent: set[frozenset[str]]
) -> None:
    ends, causes = drawn
    answers = world(ends, causes, lambda taken: taken in silent)
    asked: list[Taken] = []

    def ask(taken: Taken) -> MixtureTrial:
        asked.append(taken)
        return answers(taken)

    blame = search(ends, ask)
    breaks, heals = map(frozenset, packages(blame))

    assert len(asked) == len(set(asked)) == len(blame.trials)
    assert answers(breaks).answer is YES
    assert answers(ends.everything - heals).answer is NO
    smaller = [frozenset(part) for part in combinations(sorted(breaks), len(breaks) - 1) if part]
    assert all(answers(part).answer is not YES for part in smaller)
    if blame.ending is BlameOutcome.FOUND and blame.breaks:
        beside = breaks - frozenset(blame.breaks.suspects)
        assert world(ends, causes)(beside).answer is NO
        assert (
            all(answers(part).answer is NO for part in smaller) or len(blame.breaks.suspects) == 1
        )


def hostile() -> Blame:
    """Return what is found where the message of a failure is markup."""
    ask = world(ENDS, [{"transformers"}])
    how = seen(Outcome.FAILS, how=failed("ValueError", "a | b <img> `c`"))

    def asked(taken: Taken) -> MixtureTrial:
        trial = ask(taken)
        return trial if trial.answer is NO else dataclasses.replace(trial, seen=how)

    return search(ENDS, asked)


def told(blame: Blame, form: str) -> str:
    page = document(
        blame,
        subject="toy_breaks bf16",
        ground="on cpu with torch 2.13.0, Python 3.11",
        command="nox -s blame -- toy_breaks --precision bf16 --good 4.51.0 --bad 4.50.3",
    )
    return write(page, form)


def test_every_answer_reads_as_expected(expected: Expected) -> None:
    apart, both = {"transformers", "peft"}, {"transformers"}
    found_alone = found([both])
    undecided = found([both], lambda taken: len(taken & apart) == 1)
    same = difference(GOOD, GOOD)
    pages = {
        "one package": found_alone,
        "only together": found([apart]),
        "two causes": found([{"numpy"}, {"peft"}]),
        "packages that cannot be told apart": undecided,
        "what has to come with it": found([both], lambda taken: taken & apart == both),
        "markup in a message": hostile(),
    }
    pasted = {"one package": found_alone, "cannot be told apart": undecided, "markup": hostile()}
    read = json.loads(told(pages["only together"], "json"))
    for trial in read["trials"]:
        trial["environment_digest"] = trial["environment_digest"] and "<digest>"

    said = {title: with_ends(good, bad) for title, (good, bad, _) in WRONG_ENDS.items()}
    said["one environment"] = search(same, world(same, []))

    expected(
        "packages",
        {title: told(blame, "text") for title, blame in pages.items()}
        | {title: sentence(blame) for title, blame in said.items()}
        | {f"{title}, to paste": told(one, "markdown") for title, one in pasted.items()}
        | {"only together, for a program": json.dumps(read, indent=1)},
    )


def test_what_came_along_and_what_went_is_said() -> None:
    ends = difference(environment("5.0.0", httpx="1"), environment("4.57.6", requests="2"))
    holds = environment("5.0.0", requests="2")
    mixture = MixtureTrial(
        taken=frozenset({"transformers"}), name="x", answer=YES, environment=holds
    )
    half = difference(
        environment("5.0.0", httpx="1", numpy="1"), environment("4.57.6", requests="2", numpy="2")
    )

    assert mixture.company(ends) == ()  # it is the bad end
    assert mixture.company(half) == ("-httpx", "+requests 2")


def test_the_resolvers_reason_is_told_in_short() -> None:
    said = (
        "error: No solution found when resolving dependencies cause: Because transformers==5.0.0"
        " depends on huggingface-hub>=1.3.0,<2.0 and accelerate==1.12.0 depends on"
        " huggingface-hub==0.36.0, we can conclude that accelerate==1.12.0 and transformers==5.0.0"
        " are incompatible. And because you require both, they are unsatisfiable."
    )

    assert in_short(said, ["huggingface-hub==0.36.0 ; sys_platform == 'linux'"]) == (
        "transformers==5.0.0 depends on huggingface-hub>=1.3.0,<2.0"
        " and this has huggingface-hub==0.36.0"
    )
    assert in_short("the index does not answer") == "the index does not answer"


def test_the_packages_that_a_case_itself_names_are_tried_first() -> None:
    entry = '[[tool.repromatrix.fails]]\nwhen = ["{}<1"]\nraises = "E"\nmatch = "x"\n'
    several = case("".join(entry.format(package) for package in ("zlib", "peft", "accelerate")))

    assert likely(several) == ("accelerate", "peft", "zlib")


# --- with stored evidence, and with what is run ---


def question(of: Case) -> CaseQuestion:
    return CaseQuestion(case=of, workaround="", precision=Precision.BF16, device=Device.CPU)


def row(outcome: Outcome, on: Environment, of: Case | None = None) -> Observation:
    ran = provenance(of or case(BREAKS), on)
    return seen(outcome, cell(on.name), ran=ran)


def lock_of(held: Environment) -> Lock:
    pins = (one for one in held.pins.items() if one[0] != "torch")
    lines = "".join(f"{package}=={version} --hash=sha256:aa\n" for package, version in pins)
    return read_lock(lines, held.name, "")


class Machine:
    """Stands in for all that builds and runs: bad is whatever holds transformers 4.50.3."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, matrix: Matrix, places: Paths) -> None:
        self.case = case(BREAKS)
        self.ran: list[str] = []
        self.kept: list[Observation] = []
        self.ends_after = 99
        self.project = Project(
            paths=places,
            matrix=matrix,
            locks={one.name: lock_of(one) for one in (GOOD, BAD)},
            environments={one.name: one for one in (GOOD, BAD)},
            cases={"toy_breaks": case(BREAKS)},
        )
        monkeypatch.setattr(building, "build", self.build)
        monkeypatch.setattr(package_runs, "mixed", self.mixed)
        monkeypatch.setattr(run, "measure", self.measure)

    def build(self, places: Paths, recipe: object) -> Built:
        del recipe
        return Built(name="", folder=places.root, python=places.root, versions={})

    def mixed(self, *known: object) -> Lock:
        taken: Taken = known[-1]  # type: ignore[assignment]
        held = {one.package: one.version(taken) for one in ENDS.changes}
        return lock_of(holding(mixture_name(ENDS, taken), held))

    def measure(self, ready: Ready, *_: object, **__: object) -> tuple[Observation, ...]:
        if len(self.ran) >= self.ends_after:
            raise Interrupted
        self.ran.append(ready.environment.name)
        bad = ready.environment.version("transformers") == "4.50.3"
        return (row(Outcome.FAILS if bad else Outcome.PASSES, ready.environment, self.case),)

    def bench(self, *rows: Observation) -> MixtureOracle:
        terms = Terms(
            run="", limits=self.project.matrix.limits, device=Device.CPU, jobs=1, fork=True
        )
        return MixtureOracle(
            project=self.project,
            question=question(self.case),
            good="4.51.0",
            bad="4.50.3",
            rows=(*rows, *self.kept),
            keep=self.kept.append,
            terms=terms,
            say=lambda _: None,
        )


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, matrix: Matrix, places: Paths) -> Machine:
    return Machine(monkeypatch, matrix, places)


FOUND = ["4.51.0+transformers4.50.3", "4.50.3+transformers4.51.0"]


def test_ends_that_are_known_are_not_run(machine: Machine) -> None:
    blame = machine.bench(row(Outcome.PASSES, GOOD), row(Outcome.FAILS, BAD)).blame()

    assert packages(blame) == (("transformers",), ("transformers",))
    assert machine.ran == FOUND
    assert [trial.known for trial in blame.trials] == [True, True, False, False]


def test_an_end_whose_evidence_is_stale_is_run(machine: Machine) -> None:
    stale = row(Outcome.PASSES, holding("4.51.0", PINS | {"peft": "0.15.0"}))
    blame = machine.bench(stale, row(Outcome.FAILS, BAD)).blame()

    assert machine.ran == ["4.51.0", *FOUND]
    assert blame.ending is BlameOutcome.FOUND


def test_what_holds_the_same_packages_is_known_whatever_it_is_called(machine: Machine) -> None:
    same = holding("other", PINS | {"transformers": "4.50.3"})
    blame = machine.bench(row(Outcome.FAILS, same)).blame()

    assert machine.ran == ["4.50.3", "4.51.0", "4.50.3+transformers4.51.0"]
    assert blame.ending is BlameOutcome.FOUND


def test_an_interrupted_search_goes_on_where_it_was(machine: Machine) -> None:
    machine.ends_after = 3
    with pytest.raises(Interrupted):
        machine.bench().blame()
    machine.ends_after = 99
    before = list(machine.ran)
    blame = machine.bench().blame()

    assert machine.ran == [*before, FOUND[1]]
    assert sorted(before) == ["4.50.3", "4.51.0", FOUND[0]]
    assert packages(blame) == (("transformers",), ("transformers",))


def test_a_script_that_describes_no_failure_is_blamed_by_how_it_fails_in_the_bad_end(
    machine: Machine,
) -> None:
    machine.case = case()
    blame = machine.bench().blame()

    assert machine.ran == ["4.50.3", "4.51.0", *FOUND]
    assert packages(blame) == (("transformers",), ("transformers",))


@pytest.mark.parametrize("source", [LOCAL, MERGED, "2026-11-21"])
def test_an_end_about_which_the_evidence_disagrees_is_run_again(
    machine: Machine, source: str
) -> None:
    denied = dataclasses.replace(row(Outcome.FAILS, BAD), source=source)
    blame = machine.bench(row(Outcome.PASSES, GOOD), denied, row(Outcome.PASSES, BAD)).blame()

    assert machine.ran == ["4.50.3", *FOUND]
    assert packages(blame) == (("transformers",), ("transformers",))


def test_an_end_that_contradicts_itself_when_it_is_run_answers_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    unstable = dataclasses.replace(row(Outcome.FAILS, BAD), unstable=True)
    monkeypatch.setattr(run, "measure", lambda *_, **__: (unstable,))

    assert machine.bench(row(Outcome.PASSES, GOOD)).blame().ending is BlameOutcome.SILENT


def test_a_mixture_that_cannot_be_made_is_named_with_its_reason(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> Lock:
        msg = "transformers==4.50.3 depends on peft<0.15"
        raise UnresolvableError(msg)

    monkeypatch.setattr(package_runs, "mixed", refused)
    blame = machine.bench(row(Outcome.PASSES, GOOD), row(Outcome.FAILS, BAD)).blame()

    assert machine.ran == []
    assert packages(blame) == (ENDS.packages, ENDS.packages)
    assert blame.ending is BlameOutcome.UNDECIDED
    assert {one.reason for one in blame.trials[2:]} == {
        "cannot be resolved: transformers==4.50.3 depends on peft<0.15"
    }


def test_an_end_that_cannot_be_built_ends_it_with_its_own_code(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> Built:
        msg = "no wheel"
        raise UnbuildableError(msg)

    monkeypatch.setattr(building, "build", refused)
    with pytest.raises(RunnerError) as caught:
        machine.bench().blame()

    assert caught.value.code is ExitCode.UNBUILDABLE
    assert [fault.where for fault in caught.value.faults] == ["4.50.3"]
