"""What changed between two releases, folded by cause."""

from __future__ import annotations

import dataclasses

import pytest

from repromatrix.runner.evidence.swept.changes import Kind, difference
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord, ProbeStatus
from repromatrix.runner.evidence.swept.triage import TriagedFinding, TriageVerdict
from repromatrix.sweep.findings import bad, changes, findings
from repromatrix.sweep.render import told

CACHE = "transformers.cache_utils:StaticLayer.update"
SUMMARY = {"logits": {"shape": [2, 4], "finite": 1.0, "norm": 2.0, "samples": [1.0, -1.0, None]}}


def record(
    kind: str = "llama", probe: str = "static-bf16", status: ProbeStatus = ProbeStatus.HOLDS
) -> ProbeRecord:
    return ProbeRecord(key=ProbeKey(kind, probe), status=status)


def failing(kind: str = "llama", place: str = CACHE, message: str = "dtype 3") -> ProbeRecord:
    plain = record(kind, status=ProbeStatus.FAILS)
    return dataclasses.replace(plain, error="RuntimeError", message=message, place=place)


def outputs(norm: float = 2.0, kind: str = "llama") -> ProbeRecord:
    summary = {"logits": {**SUMMARY["logits"], "norm": norm}}
    return dataclasses.replace(record(kind, "outputs-fp32"), summary=summary)


def kinds(before: ProbeRecord, after: ProbeRecord) -> list[Kind]:
    return [change.kind for change in changes({before.key: before}, {after.key: after})]


def test_what_held_and_fails_is_broken_and_the_other_way_fixed() -> None:
    assert kinds(record(), failing()) == [Kind.BROKEN]
    assert kinds(failing(), record()) == [Kind.FIXED]


def test_what_fails_in_other_words_is_a_change_and_other_sizes_are_none() -> None:
    assert kinds(failing(message="dtype 3"), failing(message="dtype 4")) == []
    assert kinds(failing(message="no attribute"), failing()) == [Kind.OTHER]


@pytest.mark.parametrize("status", [ProbeStatus.SKIPPED, ProbeStatus.UNKNOWN])
def test_what_one_side_could_not_answer_is_no_change(status: ProbeStatus) -> None:
    assert kinds(record(status=status), failing()) == []
    assert kinds(failing(), record(status=status)) == []


def test_numbers_beyond_their_tolerance_are_a_change() -> None:
    assert kinds(outputs(2.0), outputs(2.00001)) == []
    assert kinds(outputs(2.0), outputs(2.1)) == [Kind.NUMBERS]


def test_numbers_of_weights_with_other_names_are_not_compared() -> None:
    renamed = dataclasses.replace(outputs(4.0), summary={**outputs(4.0).summary, "weights": "b"})
    plain = dataclasses.replace(outputs(), summary={**outputs().summary, "weights": "a"})

    assert kinds(plain, renamed) == []
    assert kinds(outputs(), outputs(4.0)) == [Kind.NUMBERS]


def test_the_difference_of_two_summaries_is_the_largest_relative_one() -> None:
    other = {"logits": {**SUMMARY["logits"], "samples": [1.0, 1.0, 5.0]}}
    lost = {"logits": {**SUMMARY["logits"], "finite": 0.5}}

    assert difference(SUMMARY, SUMMARY) == 0
    assert difference(SUMMARY, other) == pytest.approx(2**0.5)
    assert difference(SUMMARY, lost) == 1
    assert difference(SUMMARY, {}) == 0


def test_architectures_that_fail_in_the_same_shared_code_are_one_finding() -> None:
    before = {
        ProbeKey(kind, "static-bf16"): record(kind) for kind in ("llama", "gpt2", "opt", "dpr")
    }
    after = {
        one.key: one
        for one in (
            failing("llama"),
            failing("gpt2", message="dtype of another size: 4"),
            failing("opt", place="transformers.models.opt.modeling_opt:OPTAttention.forward"),
            failing("dpr", place="transformers.models.dpr.modeling_dpr:DprAttention.forward"),
        )
    }
    folded = findings(changes(before, after))

    assert [(one.kinds, one.cause) for one in folded] == [
        (("gpt2", "llama"), f"RuntimeError in {CACHE}"),
        (("dpr", "opt"), "RuntimeError: dtype <n> in Attention.forward"),
    ]
    assert len({one.name for one in folded}) == 2


def test_a_finding_has_one_name_whether_it_was_measured_or_read_again() -> None:
    words = failing(
        place="transformers.models.llama.modeling_llama:LlamaModel.forward", message="no " * 150
    )
    names = [
        [one.name for one in findings(changes({one.key: record()}, {one.key: one}))]
        for one in (words, words.shortened)
    ]

    assert len(words.shortened.message) < len(words.message)
    assert names[0] == names[1] != []


def test_inputs_in_fp32_that_weights_in_16_bit_refuse_are_one_finding() -> None:
    raw = [
        dataclasses.replace(failing(kind, place=place), key=ProbeKey(kind, "raw-bf16"))
        for kind, place in (("vit", "a:f"), ("dpt", "transformers.models.dpt.modeling_dpt:D.g"))
    ]
    before = {one.key: record(one.key.kind, "raw-bf16") for one in raw}
    (finding,) = findings(changes(before, {one.key: one for one in raw}))

    assert (finding.kinds, finding.cause) == (("dpt", "vit"), "raw-bf16: RuntimeError: dtype <n>")


def test_what_differs_is_known_by_its_words_and_by_its_architecture_where_it_is_a_number() -> None:
    def differs(kind: str, probe: str, why: str, value: float | None = None) -> ProbeRecord:
        plain = ProbeRecord(key=ProbeKey(kind, probe), status=ProbeStatus.DIFFERS)
        return dataclasses.replace(plain, why=why, value=value)

    found = [
        differs("llama", "trainer-leaks", "left behind: X"),
        differs("opt", "trainer-leaks", "left behind: X"),
        differs("llama", "batch", "relative error 0.5", 0.5),
        differs("opt", "batch", "relative error 0.5", 0.5),
    ]
    before = {one.key: record(one.key.kind, one.key.probe) for one in found}
    folded = findings(changes(before, {one.key: one for one in found}))

    assert [(one.kinds, one.cause) for one in folded] == [
        (("llama", "opt"), "trainer-leaks: left behind: X"),
        (("llama",), "batch: llama"),
        (("opt",), "batch: opt"),
    ]


def test_other_numbers_of_the_classes_of_an_architecture_are_one_finding() -> None:
    classes = ("bert:BertForMaskedLM", "bert:BertModel", "t5:T5Model")
    before = {one.key: one for one in (outputs(kind=kind) for kind in classes)}
    after = {one.key: one for one in (outputs(norm=3.0, kind=kind) for kind in classes)}
    plain = findings(
        changes(*({one.key: one} for one in (outputs(kind="bert"), outputs(3.0, "bert"))))
    )

    found = findings(changes(before, after))
    assert [one.kinds for one in found] == [classes[:2], classes[2:]]
    assert found[0].name == plain[0].name


def test_other_numbers_are_a_finding_of_each_architecture() -> None:
    before = {one.key: one for one in (outputs(kind="llama"), outputs(kind="opt"))}
    after = {one.key: one for one in (outputs(4.0, "llama"), outputs(4.0, "opt"))}
    folded = findings(changes(before, after))

    assert [one.kinds for one in folded] == [("llama",), ("opt",)]
    decided = TriagedFinding(
        name=folded[0].name,
        verdict=TriageVerdict.INTENDED,
        says="A scale.",
        architectures=("llama",),
        case="toy",
    )
    assert list(told(folded, 1, {decided.name: (decided,)})) == [
        "Other numbers: 2 findings",
        f"  {folded[0].name}  1 architecture: llama",
        "      outputs-fp32: relative difference 0.5",
        "      intended: A scale. (toy)",
        "  … and 1 more (--all lists them)",
    ]
    assert [*told(folded, 2, {decided.name: (decided,)})][-1] == "      undecided: opt"


def test_what_is_bad_in_16_bit_leaves_out_what_computes_in_fp32() -> None:
    found = {one.key: one for one in (failing("llama"), failing("opt"))}
    wide = dataclasses.replace(failing("bert"), key=ProbeKey("bert", "cached"))
    found[wide.key] = wide
    (finding,) = bad(found, {"static-bf16": "bf16", "cached": "fp32"})

    assert finding.kinds == ("llama", "opt")
    dtypes = {"static-bf16": "bf16", "cached": "fp32"}
    assert [one.kinds for one in bad(found, dtypes, in_16_bit=False)] == [("bert",)]
