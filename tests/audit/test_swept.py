"""What the sweep says of a model at somebody's version."""

from __future__ import annotations

import pytest
from swept import line, record

from repromatrix.runner.audit.questions import Level
from repromatrix.runner.audit.swept import SweptAnswer, as_data, lines, named, swept
from repromatrix.runner.evidence.swept.probes import PROBES
from repromatrix.runner.evidence.swept.records import ProbeRecord, ProbeStatus
from repromatrix.runner.model.outcomes import Precision

HOLDS, FAILS, SKIPPED = ProbeStatus.HOLDS, ProbeStatus.FAILS, ProbeStatus.SKIPPED
BF16 = frozenset({Precision.BF16})


def on(static: ProbeStatus, autocast: ProbeStatus = HOLDS) -> list[ProbeRecord]:
    return [
        record("llama", "static-bf16", static, "size 3"),
        record("llama", "autocast-bf16", autocast, "no way"),
    ]


HISTORY = line(on(HOLDS), on(FAILS), on(FAILS), on(HOLDS, SKIPPED))
"""static-bf16 fails on 4.50.0 and 4.51.0."""


def answer(version: str, precisions: frozenset[Precision] = BF16) -> SweptAnswer:
    (found,) = swept(HISTORY, ["llama"], version, precisions)
    return found


def told(found: SweptAnswer) -> tuple[object, ...]:
    return found.level, found.rests_on, [one.key.probe for one in found.bad], found.unknown


def test_a_release_that_was_measured_answers_for_itself() -> None:
    assert told(answer("4.50.0")) == (Level.MEASURED, ("4.50.0",), ["static-bf16"], 0)
    assert told(answer("4.49.0")) == (Level.MEASURED, ("4.49.0",), [], 0)
    assert answer("4.50.0").newest_good == "5.0.0"


def test_a_version_between_two_releases_has_what_both_say() -> None:
    assert told(answer("4.50.3")) == (Level.DERIVED, ("4.50.0", "4.51.0"), ["static-bf16"], 0)
    # One side fails and the other holds: nobody knows.
    assert told(answer("4.57.6")) == (Level.DERIVED, ("4.51.0", "5.0.0"), [], 1)


@pytest.mark.parametrize("version", ["", "4.48.0", "5.1.0"])
def test_beyond_what_was_measured_nothing_is_known(version: str) -> None:
    assert told(answer(version)) == (Level.UNKNOWN, (), [], 0)
    assert not answer(version).is_known


def test_only_the_probes_in_the_precisions_that_are_asked_for_count() -> None:
    assert told(answer("4.50.0", frozenset({Precision.FP32})))[2] == []
    assert answer("4.50.0").holding + 1 == sum(probe.dtype == "bf16" for probe in PROBES)


def test_models_are_found_as_configs_and_as_families_write_them() -> None:
    assert named(HISTORY, ["lla*", "bert"]) == ("llama",)
    assert named(HISTORY, ["gptj,llama"]) == ("llama",)
    assert named(HISTORY, ["L-La.m_a"]) == ("llama",)


def test_people_and_programs_are_told_the_same() -> None:
    found = [answer("4.50.3")]
    number, where = found[0].holding + 1, "derived on 4.50.0 and 4.51.0"

    assert [*lines(found)] == [
        "Swept: tiny random models; what needs large values or trained weights does not show.",
        f"  llama (LlamaForCausalLM): 1 of {number} probes does not hold ({where})",
        "    bf16 static-bf16 fails: ValueError: size 3 (transformers.m:f) [undecided]",
        "    5.0.0 is the newest swept release on which all of them hold.",
    ]
    assert as_data(found) == [
        {
            "architecture": "llama",
            "class": "LlamaForCausalLM",
            "level": "derived",
            "rests-on": ["4.50.0", "4.51.0"],
            "failing": [
                {
                    "probe": "static-bf16",
                    "precision": "bf16",
                    "outcome": "fails",
                    "error": "ValueError: size 3",
                    "where": "transformers.m:f",
                    "decided": "undecided",
                }
            ],
            "holding": found[0].holding,
            "unknown": 0,
            "newest-good": "5.0.0",
            "classes": [],
        }
    ]
    assert [*lines([answer("")])][1] == (
        "  llama (LlamaForCausalLM): nothing is known of this set of packages"
    )


def test_a_further_class_is_told_of_where_it_does_what_its_architecture_does_not() -> None:
    base = [
        record("llama:LlamaModel", "autocast-bf16", FAILS, "no way"),
        record("llama:LlamaForTokenClassification", "static-bf16", FAILS, "size 3"),
    ]
    names = ("LlamaModel", "LlamaForTokenClassification")
    recipes = [(f"llama:{name}", name, "4.49.0") for name in names]
    classes = line([], base, base, base, recipes=recipes)
    (found,) = swept(HISTORY, ["llama"], "4.50.0", BF16, classes)
    (other,) = swept(HISTORY, ["llama"], "4.49.0", BF16, classes)

    assert [name for name, _ in found.classes] == ["LlamaModel"]
    assert [*lines([found])][-1].endswith(
        "LlamaModel: bf16 autocast-bf16 fails: ValueError: no way (transformers.m:f) [undecided]"
    )
    told_of = as_data([found])[0]["classes"]
    assert [(each["class"], *(row["probe"] for row in each["failing"])) for each in told_of] == [
        ("LlamaModel", "autocast-bf16")
    ]
    assert other.classes == ()
