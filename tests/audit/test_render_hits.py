"""Which known bugs come first, and which are counted alone."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from factories import BREAKS, case, cell, environment, installed, provenance, seen

from repromatrix.runner.audit.hits import Audit, audit
from repromatrix.runner.audit.known import known
from repromatrix.runner.audit.questions import AuditQuestion
from repromatrix.runner.audit.render import document
from repromatrix.runner.audit.render_ci import sarif
from repromatrix.runner.audit.render_hits import brief
from repromatrix.runner.audit.settings import AuditTerms
from repromatrix.runner.document import write
from repromatrix.runner.model.case import Case, Symptom
from repromatrix.runner.model.outcomes import Outcome, Precision

ANY = ("any",)
WRONG, DTYPE, ERROR = Symptom.WRONG_NUMBERS, Symptom.WRONG_DTYPE, Symptom.ERROR
TOYS: dict[str, dict[str, Any]] = {
    "doll_error": {"models": ("doll",), "title": "A doll breaks"},
    "doll_dora": {"models": ("doll",), "title": "DoRA breaks a doll", "symptom": (WRONG,)},
    "doll_wrong": {"models": ("doll",), "title": "A doll is wrong", "symptom": (WRONG,)},
    "any_error": {"models": ANY, "title": "Anything breaks"},
    "any_dtype": {"models": ANY, "title": "Anything is in fp32", "symptom": (DTYPE,)},
    "any_wrong": {"models": ANY, "title": "Anything is wrong", "symptom": (WRONG,)},
    "any_fsdp2": {"models": ANY, "title": "FSDP2 breaks"},
    **{f"car_{n:02}": {"models": ("car",), "title": f"Car {n} breaks"} for n in range(14)},
}
DOLL, NONE = frozenset({"doll"}), frozenset[str]()


def toy(name: str, **said: Any) -> Case:  # noqa: ANN401 - fields of a block
    of_any = {"shown_with": ("toy",), "concerns": "Every model."} if said["models"] == ANY else {}
    made = case(BREAKS, name=name)
    return dataclasses.replace(made, block=made.block.model_copy(update={**of_any, **said}))


def answer(models: frozenset[str] = NONE, features: frozenset[str] = NONE) -> Audit:
    toys = {name: toy(name, **said) for name, said in TOYS.items()}
    chosen = tuple(n for n, one in toys.items() if not models or one.block.is_about(models))
    release = environment("4.50.0")
    rows = [seen(Outcome.FAILS, cell(name=n), ran=provenance(toys[n], release)) for n in toys]
    question = AuditQuestion(
        cases=chosen, precisions=(Precision.BF16,), models=models, features=features
    )
    return audit(installed("4.50.0"), known(toys, {"4.50.0": release}, rows), question)


def listed(found: Audit, *, everything: bool = False) -> list[str]:
    """Return the lines of an answer up to what was read, without what avoids a bug."""
    terms = AuditTerms(everything=everything)
    text = write(document(found, terms), "text").partition("mine.txt")[0]
    return [line.partition(" (")[0] for line in text.splitlines() if line][1:]


def test_of_many_what_is_silent_for_anyone_is_listed_and_the_rest_is_counted() -> None:
    assert listed(answer())[:-1] == [
        "Silent, whatever the model:",
        *("  Anything is wrong", "  Anything is in fp32"),
        "With an error that you would see, whatever the model: 1.",
        "Only with: fsdp2: 1.",
        "Only of some models",
    ]


def test_all_are_listed_where_it_is_asked_for() -> None:
    every = [line for line in listed(answer(), everything=True) if line.startswith("  ")]

    assert sorted(every) == sorted(f"  {said['title']}" for said in TOYS.values())


def test_a_model_and_a_feature_that_are_named_come_first_wrong_results_before_errors() -> None:
    found = answer(models=DOLL, features=frozenset({"fsdp2"}))

    assert listed(found) == [
        "About doll and fsdp2:",
        *("  A doll is wrong", "  A doll breaks", "  FSDP2 breaks", "  DoRA breaks a doll"),
        "Silent, whatever the model:",
        *("  Anything is wrong", "  Anything is in fp32"),
        "With an error that you would see, whatever the model:",
        "  Anything breaks",
    ]


def test_the_first_line_says_how_many_are_about_what_was_named_and_what_was_assumed() -> None:
    headline = document(answer(models=DOLL)).headline

    assert headline == (
        "7 known bugs (3 about doll; 7 cells: 7 measured, 0 derived);"
        " 0 passing (0 measured), 0 not applicable. Assumed: torch 2.13.0 for your 2.6.0."
    )


def test_programs_get_every_hit_with_its_rank_and_its_features() -> None:
    found = answer(models=DOLL)
    hits = document(found).data["hits"]
    (run,) = json.loads(sarif(found, AuditTerms()))["runs"]

    assert [(hit["rank"], hit["case"], hit["feature"]) for hit in hits] == [
        *((1, "doll_wrong", []), (2, "doll_error", []), (3, "doll_dora", ["dora"])),
        *((4, "any_wrong", []), (5, "any_dtype", []), (6, "any_error", [])),
        (7, "any_fsdp2", ["fsdp2"]),
    ]
    assert [
        (one["properties"]["rank"], one["ruleId"], one["properties"]["feature"])
        for one in run["results"]
    ] == [(hit["rank"], hit["case"], hit["feature"]) for hit in hits]


def test_variants_of_which_the_same_is_known_share_a_line() -> None:
    one = toy("any_fails", models=ANY, title="It is wrong [a]", symptom=(WRONG,))
    toys = {
        f"any_fails[{name}]": dataclasses.replace(
            one,
            name=f"any_fails[{name}]",
            variant=name,
            block=one.block.model_copy(update={"title": f"It is wrong [{name}]"}),
        )
        for name in ("a", "b")
    }
    release = environment("4.50.0")
    rows = [seen(Outcome.FAILS, cell(name=n), ran=provenance(toys[n], release)) for n in toys]
    found = audit(installed("4.50.0"), known(toys, {"4.50.0": release}, rows))
    text = "".join(map(str, brief(found, AuditTerms(), "")))

    assert text.count("It is wrong") == 1
    assert "any_fails)" in text
