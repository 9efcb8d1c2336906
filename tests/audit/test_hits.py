"""Which known bugs a set of packages has, what avoids them, and what an upgrade changes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from factories import (
    BREAKS,
    MARKERS,
    case,
    case_text,
    cell,
    failed,
    installed,
    provenance,
    rows_of,
    seen,
    what_is_known,
)
from factories import environment as held
from hypothesis import given
from hypothesis import strategies as st
from small_checkout import checkout

from repromatrix.runner.audit.asking import asked
from repromatrix.runner.audit.hits import audit
from repromatrix.runner.audit.known import known
from repromatrix.runner.audit.packages import Installed, Other
from repromatrix.runner.audit.questions import AuditQuestion, Level, Spot
from repromatrix.runner.audit.render import document, shared
from repromatrix.runner.document import write
from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.model.case import read_case
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.planning.selection import SelectionRequest

if TYPE_CHECKING:
    from pathlib import Path

    from kept import Expected

    from repromatrix.runner.audit.hits import Audit
    from repromatrix.runner.audit.known import KnownEvidence
    from repromatrix.runner.model.case import Case

PASSES, FAILS = Outcome.PASSES, Outcome.FAILS
FP32 = (Precision.FP32,)
BF16 = AuditQuestion(precisions=(Precision.BF16,))
HELPED = (
    BREAKS
    + """
[tool.repromatrix.workarounds]
avoid = { says = "Leave it.", skips = true }
works = "Do it otherwise."
useless = "Hope."
"""
)
LINE = {"4.49.0": PASSES, "4.50.0": FAILS, "4.50.1": FAILS, "4.51.0": PASSES, "4.52.0": FAILS}
TRIED = {"avoid": PASSES, "works": PASSES, "useless": FAILS}


def text(found: Audit) -> str:
    return write(document(found), "text")


def pasted(found: Audit) -> str:
    return write(document(found, full=True), "markdown")


def helped() -> KnownEvidence:
    """Return a case with workarounds, each tried in the release that breaks."""
    toy = case(HELPED)
    line = what_is_known(LINE, toy)
    ran = provenance(toy, line.environments["4.50.0"])
    tried = [seen(one, cell(workaround=name), ran=ran) for name, one in TRIED.items()]
    return known({toy.name: toy}, line.environments, [*rows_of(line).values(), *tried])


def test_a_hit_names_what_it_rests_on_the_nearest_versions_and_what_works_there() -> None:
    found = audit(installed("4.50.0"), helped(), BF16)
    (hit,) = found.hits

    assert [(one.precision, one.level) for one in hit.stands] == [(Precision.BF16, Level.MEASURED)]
    assert hit.newer is not None
    assert hit.older is not None
    assert (hit.newer, hit.older) == (
        {"transformers": "4.51.0"},
        {"transformers": "4.49.0"},
    )
    assert [(one.name, one.skips) for one in hit.remedies] == [("works", False), ("avoid", True)]
    assert [(one.package, one.ours, one.measured) for one in hit.differences] == [
        ("torch", "2.6.0", ("2.13.0+cpu",))
    ]


def pinned(change: str, before: str, at: str, precision: str = "bf16") -> PinnedCommit:
    key = ("toy_breaks", "", precision, "cpu", change, before, at)
    sha, pull = (change[0] * 40, "8") if change == "break" else ("c" * 40, "")
    return PinnedCommit(
        *key,
        package="transformers",
        commit=sha,
        date="2025-03-28",
        title="Do it",
        pull_request=pull,
    )


def with_commits() -> Audit:
    rows = (pinned("break", "4.49.0", "4.50.0"), pinned("fix", "4.50.1", "4.51.0"))
    return audit(installed("4.50.1"), dataclasses.replace(what_is_known(LINE), commits=rows), BF16)


def test_a_hit_names_the_commits_between_which_these_versions_fail() -> None:
    (hit,) = document(with_commits()).data["hits"]

    told = {"package": "transformers", "date": "2025-03-28", "title": "Do it"}
    assert hit["broken-by"] == [
        {**told, "commit": "b" * 40, "pull-request": 8, "precisions": ["bf16"]}
    ]
    assert hit["fixed-by"] == [
        {**told, "commit": "c" * 40, "pull-request": None, "precisions": ["bf16"]}
    ]


def test_a_hit_names_no_commit_of_another_precision_or_behind_a_pass() -> None:
    rows = (
        pinned("break", "4.49.0", "4.50.0"),
        pinned("break", "4.51.0", "4.52.0", "fp16"),
        pinned("fix", "4.52.0", "4.53.0"),
    )
    known = dataclasses.replace(what_is_known(LINE), commits=rows)
    (later,) = audit(installed("4.52.0"), known, BF16).hits
    (earlier,) = audit(installed("4.50.0"), known, BF16).hits

    assert (later.broken_by, later.fixed_by) == ((), rows[2:])
    assert (earlier.broken_by, earlier.fixed_by) == (rows[:1], ())


def test_a_workaround_that_was_tried_elsewhere_is_not_known_to_work() -> None:
    (hit,) = audit(installed("4.50.1"), helped(), BF16).hits

    assert hit.remedies == ()


def test_an_upgrade_says_what_it_fixes_and_what_it_breaks() -> None:
    toys = {
        name: case(BREAKS, name=name) for name in ("healed", "kept", "broken", "brought", "doubted")
    }
    toys["brought"] = case(BREAKS, name="brought", dependencies=("torch", "transformers>=4.51"))
    lines: dict[str, dict[str, Outcome]] = {
        "healed": {"4.50.0": FAILS, "4.51.0": PASSES},
        "kept": {"4.50.0": FAILS, "4.51.0": FAILS},
        "broken": {"4.50.0": PASSES, "4.51.0": FAILS},
        "brought": {"4.51.0": FAILS},
        "doubted": {"4.51.0": FAILS},
    }
    environments = {name: held(name) for name in ("4.50.0", "4.51.0")}
    rows = [
        seen(outcome, cell(release, name=name), ran=provenance(toys[name], environments[release]))
        for name, line in lines.items()
        for release, outcome in line.items()
    ]
    found = audit(installed("4.50.0"), known(toys, environments, rows), BF16)
    newest = found.newest

    assert newest is not None
    assert (found.nearest, newest.release) == (None, "4.51.0")
    spots = (newest.heals, newest.keeps, newest.breaks, newest.brings, newest.doubts)
    assert spots == tuple(
        (Spot(name, Precision.BF16),) for name in ("healed", "kept", "broken", "brought", "doubted")
    )


def test_the_nearest_release_without_hits_is_one_on_which_everything_was_measured() -> None:
    unjudged = {"4.50.1": Outcome.NOT_RUN, "4.50.2": Outcome.DECLINES}
    line = {"4.50.0": FAILS, **unjudged, "4.51.0": PASSES, "4.52.0": FAILS}
    found = audit(installed("4.50.0"), what_is_known(line), BF16)

    assert found.nearest is not None
    assert found.newest is not None
    assert (found.nearest.release, found.newest.release) == ("4.51.0", "4.52.0")


def test_a_release_of_which_little_is_known_is_not_the_one_with_the_fewest_bugs() -> None:
    names = ("one", "two", "three")
    toys = {name: case(BREAKS, name=name) for name in names}
    environments = {name: held(name) for name in ("4.50.0", "4.51.0", "4.52.0", "4.53.0")}
    lines = {
        "4.50.0": (FAILS, FAILS, FAILS),
        "4.51.0": (PASSES,),
        "4.52.0": (FAILS, PASSES, PASSES),
    }
    rows = [
        seen(outcome, cell(release, name=name), ran=provenance(toys[name], environments[release]))
        for release, line in lines.items()
        for name, outcome in zip(names, line, strict=False)
    ]
    found = audit(installed("4.50.0"), known(toys, environments, rows), BF16)

    assert found.fewest is not None
    assert found.newest is not None
    assert (found.nearest, found.fewest.release, found.newest.release) == (None, "4.52.0", "4.52.0")


def test_where_nothing_was_measured_no_release_is_recommended_and_nothing_called_measured() -> None:
    on_cpu = what_is_known({"4.50.0": FAILS, "4.51.0": PASSES})
    found = audit(installed("4.50.0"), on_cpu, dataclasses.replace(BF16, device=Device.CUDA))

    assert (found.nearest, found.fewest, found.newest) == (None, None, None)
    assert "Evidence: nothing is measured on CUDA.\n" in text(found)
    assert "To transformers" not in text(found)


def test_only_bugs_in_which_a_chosen_package_is_at_fault_hit() -> None:
    hits = {
        package: len(
            audit(
                installed("4.50.0"),
                helped(),
                dataclasses.replace(BF16, packages=frozenset({package})),
            ).hits
        )
        for package in ("transformers", "peft")
    }

    assert hits == {"transformers": 1, "peft": 0}


def test_an_ignored_case_does_not_hit() -> None:
    asked = AuditQuestion(precisions=(Precision.BF16,), ignored=frozenset({"toy_breaks"}))
    found = audit(installed("4.50.0"), helped(), asked)

    assert (found.hits, found.clear, found.unknown) == ((), (), ())


GRID = st.dictionaries(
    st.tuples(
        st.sampled_from(["one", "two"]),
        st.sampled_from(["4.49.0", "4.50.0", "4.51.0"]),
        st.sampled_from(list(Precision)),
    ),
    st.sampled_from([PASSES, FAILS, Outcome.CRASHES, Outcome.DECLINES, Outcome.OUT_OF_MEMORY]),
)


@given(grid=GRID, release=st.sampled_from(["4.49.0", "4.50.0", "4.51.0"]))
def test_a_measured_environment_has_exactly_its_own_failing_cells(
    grid: dict[tuple[str, str, Precision], Outcome], release: str
) -> None:
    toys: dict[str, Case] = {name: case(BREAKS, name=name) for name in ("one", "two")}
    environments = {name: held(name) for name in ("4.49.0", "4.50.0", "4.51.0")}
    rows = [
        seen(
            outcome,
            cell(where, precision, name=name),
            ran=provenance(toys[name], environments[where]),
        )
        for (name, where, precision), outcome in grid.items()
    ]
    mine = Installed(
        what="it",
        form="interpreter",
        pins=environments[release].pins,
        python="3.11",
        markers=MARKERS,
    )
    found = audit(mine, known(toys, environments, rows))
    failing = {
        (name, precision)
        for (name, where, precision), outcome in grid.items()
        if where == release and outcome.is_failure
    }
    passing = {
        (name, precision)
        for (name, where, precision), outcome in grid.items()
        if where == release and outcome is PASSES
    }
    cells = [one for hit in found.hits for one in hit.stands]

    assert {(one.case, one.precision) for one in cells} == failing
    assert {(one.case, one.precision) for one in found.clear} == passing
    assert {one.level for one in [*cells, *found.clear]} <= {Level.MEASURED}
    declining = sum(
        where == release and outcome is Outcome.DECLINES for (_, where, _), outcome in grid.items()
    )
    assert len(found.not_applicable) == declining
    assert len(found.unknown) == 6 - len(failing) - len(passing) - declining


def derived() -> Audit:
    toy = case(BREAKS, dependencies=("torch", "transformers", "accelerate"))
    pins = {name: {"accelerate": "1.5.2"} for name in LINE}
    mine = installed("4.50.0.post1", accelerate="1.2.0")
    return audit(mine, what_is_known(LINE, toy, pins), BF16)


def of_peft() -> Audit:
    """Return an answer about a bug of peft, which no release of transformers alone avoids."""
    toy = case(
        BREAKS.replace("transformers>=4.50,<4.51", "peft<0.15"),
        dependencies=("torch", "transformers", "peft"),
    )
    line = {"4.49.0": FAILS, "4.50.0": PASSES, "4.51.0": FAILS, "4.52.0": PASSES}
    pins = {name: {"peft": f"0.{number}.0"} for number, name in enumerate(line, 14)}
    return audit(installed("4.49.0", peft="0.14.0"), what_is_known(line, toy, pins), BF16)


def test_a_bug_of_peft_is_pinned_where_peft_is(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("transformers==4.49.0\npeft==0.14.0\n")
    found = of_peft()
    mine = dataclasses.replace(found.installed, what=str(tmp_path / "mine.txt"))

    told = text(dataclasses.replace(found, installed=mine))
    assert f"  pinned at {tmp_path}/mine.txt:2\n" in told


def hostile() -> Audit:
    toy, environment = case(BREAKS), held("4.50.0")
    how = failed("ValueError", "\x1b[2J<script>`|`\nit breaks")
    rows = [seen(FAILS, ran=provenance(toy, environment), how=how)]
    return audit(installed("4.50.0"), known({toy.name: toy}, {"4.50.0": environment}, rows), BF16)


def for_one_platform() -> Audit:
    others = (Other("colorama", "0.4.6", ""), Other("transformers", "4.51.0", "os_name == 'nt'"))
    mine = dataclasses.replace(installed("4.50.0"), conditional=True, others=others)
    return audit(mine, helped(), BF16)


def test_what_a_lock_holds_for_other_platforms_is_told_to_programs() -> None:
    said = document(for_one_platform()).data["audited"]

    assert said["read-for"] == {"python": "3.11", "platform": "linux"}
    assert said["also-holds"] == [
        {"package": "transformers", "version": "4.51.0", "marker": "os_name == 'nt'"}
    ]


_FAILING = {"toy_6": ["works"]}


def many() -> Audit:
    names = [f"toy_{number}" for number in range(7)]
    toys = {name: case(f'kind = "change"\n{HELPED}', name=name) for name in names}
    environment = held("4.50.0")
    rows = [
        seen(
            FAILS if workaround in {"", "useless", *_FAILING.get(name, ())} else PASSES,
            cell(name=name, workaround=workaround),
            ran=provenance(toys[name], environment),
        )
        for name in names
        for workaround in ("", *TRIED)
    ]
    return audit(installed("4.50.0"), known(toys, {"4.50.0": environment}, rows), BF16)


def unknown() -> Audit:
    names = [f"toy_{number}" for number in range(5)]
    asked = {
        name: case(BREAKS, name=name, dependencies=("torch", "transformers", f"needed-{name}"))
        for name in names
    }
    mine = dataclasses.replace(installed("4.50.0"), whole=False)
    return audit(mine, known(asked, {"4.50.0": held("4.50.0")}, []), BF16)


def kin(count: int = 1) -> KnownEvidence:
    """Return cases that ran `toy`, with whose code that of `doll` is shared."""
    toys = [case('same-code = ["doll"]\n' + BREAKS, name=f"toy_{n}") for n in range(count)]
    environment = held("4.50.0")
    rows = [seen(FAILS, cell(name=toy.name), ran=provenance(toy, environment)) for toy in toys]
    return known({toy.name: toy for toy in toys}, {"4.50.0": environment}, rows)


def of_any_model() -> Audit:
    text = case_text(BREAKS).replace('["toy"]', '"any"\n# shown-with = ["toy"]')
    toy = read_case(text, "cases/toy_breaks.py")
    return audit(installed("4.50.0"), what_is_known({"4.50.0": FAILS}, toy), asked_for("doll"))


def asked_for(*models: str) -> AuditQuestion:
    return dataclasses.replace(BF16, models=frozenset(models))


def test_a_question_about_a_model_that_shares_the_code_names_that_model(tmp_path: Path) -> None:
    places = checkout(tmp_path)
    (places.cases / "toy_breaks.py").write_text(case_text('same-code = ["doll"]\n'))
    question = asked(places, SelectionRequest(model=["d*"])).question

    assert (question.cases, question.models) == (("toy_breaks",), frozenset({"doll"}))


def test_every_answer_reads_as_expected(expected: Expected) -> None:
    doll, mild = asked_for("doll"), dataclasses.replace(asked_for("doll"), precisions=FP32)
    answers = {
        "commits": with_commits(),
        "derived": derived(),
        "avoided by two packages together, and it returns": of_peft(),
        "a hostile message": hostile(),
        "a lock for several platforms": for_one_platform(),
        "many cases": many(),
        "many reasons": unknown(),
        "of any model": of_any_model(),
        "by shared code": audit(installed("4.50.0"), kin(), doll),
        "many by shared code": audit(installed("4.50.0"), kin(7), doll),
        "passes by shared code": audit(installed("4.50.0"), kin(), mild),
    }

    expected(
        "audit",
        {title: text(found) for title, found in answers.items()}
        | {f"{title}, to paste": pasted(found) for title, found in answers.items()},
    )


@pytest.mark.parametrize(
    ("models", "shared"),
    [(["doll"], {"toy_0": ("toy",)}), ([], {}), (["toy"], {}), (["toy", "doll"], {})],
)
def test_json_says_of_every_hit_whether_it_rests_on_shared_code(
    models: list[str], shared: dict[str, list[str]]
) -> None:
    found = document(audit(installed("4.50.0"), kin(), asked_for(*models))).data

    assert found["shared-code"] == shared
    assert [hit["by-shared-code"] for hit in found["hits"]] == [bool(shared)]


def test_a_model_that_cases_spell_in_two_ways_is_not_called_without_a_case() -> None:
    found = audit(installed("4.50.0"), kin(), AuditQuestion(models=frozenset({"to-y", "toy", "x"})))

    assert "No case is about x; cases about any model answer." in [*shared(found)]
