"""Expectations rewritten from evidence."""

from __future__ import annotations

import io
import shutil
from typing import TYPE_CHECKING

import pytest
import small_checkout
from factories import BREAKS, CODE, PLACES, case, case_text, cell, failed, provenance, seen
from rich.console import Console
from small_checkout import Toy

from repromatrix.runner import project
from repromatrix.runner.cli.accept import AcceptOptions, rewrite
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import commits
from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import not_built
from repromatrix.runner.judging.acceptance import fragment, spans
from repromatrix.runner.model.case_edit import Written, rewritten
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.outcomes import Device, Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.paths import Paths

NOTED = f'{BREAKS}# seen by many\nfixed-by = "https://example.org/2"\nnote = "A person\'s."\n'


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    return small_checkout.checkout(tmp_path)


def _block(text: str) -> list[str]:
    """Return the lines of the `fails` entries of a case's text, without their marks."""
    lines = [line.removeprefix("#").strip() for line in text.partition("# ///\n#")[0].splitlines()]
    start = next(number for number, line in enumerate(lines) if "fails]]" in line)
    return [line for line in lines[start : lines.index("///", start)] if line]


FALLS = (
    "[[tool.repromatrix.fails]]",
    'when = ["transformers>=4.50.0,<4.50.2"]',
    'precisions = ["bf16"]',
    'raises = "ValueError"',
    'match = "it breaks"',
)
FALLS_AGAIN = (FALLS[0], 'when = ["transformers>=4.50.3,<4.51.0"]', *FALLS[2:])


def test_what_was_measured_becomes_half_open_intervals(places: Paths) -> None:
    toy = Toy(places, case_text()).measured("+--+-+")

    assert _block(toy.accept()) == [*FALLS, *FALLS_AGAIN]


def test_precisions_that_fail_alike_share_an_entry_with_both_texts(places: Paths) -> None:
    how = failed(message="it breaks in Half at line 7")
    toy = Toy(places, case_text()).measured("+-++++", "+-++++", how)

    assert _block(toy.accept()) == [
        "[[tool.repromatrix.fails]]",
        'when = ["transformers>=4.50.0,<4.50.1"]',
        'precisions = ["bf16", "fp16"]',
        'raises = "ValueError"',
        'match = ["it breaks", "it breaks in Half at"]',
    ]


def test_variants_that_fail_alike_share_an_entry_and_others_have_their_own(places: Paths) -> None:
    code = f'{CODE}import os\n\nos.environ.get("REPRO_VARIANT", "toy")\n'
    text = case_text('variants = ["toy", "big"]\n', code)
    Toy(places, text, "toy").measured("+--+++")
    toy = Toy(places, text, "big").measured("+--+-+")

    again = [*FALLS_AGAIN[:3], 'variants = ["big"]', *FALLS_AGAIN[3:]]
    assert _block(toy.accept()) == [*FALLS, *again]
    assert toy.accept() == toy.path.read_text()


ATTENTION, BLOCK, MOVED = (PLACES[letter].place for letter in "abm")


def test_where_it_happens_is_written_into_an_entry_that_is_right(places: Paths) -> None:
    toy = Toy(places, case_text(NOTED)).measured("+aaaa+")
    match = '# match = "it breaks"\n'

    once = toy.accept()

    assert once == toy.text.replace(match, f'{match}# where = "{ATTENTION}"\n')
    assert once == toy.accept()


def test_of_evidence_without_a_traceback_no_place_is_written(places: Paths) -> None:
    toy = Toy(places, case_text(NOTED)).measured("+----+")

    assert toy.accept() == toy.text


def test_an_entry_is_split_where_the_function_changes(places: Paths) -> None:
    toy = Toy(places, case_text(NOTED)).measured("+aabb+")

    assert _block(toy.accept()) == [
        "[[tool.repromatrix.fails]]",
        'when = ["transformers>=4.50.2,<4.51.0"]',
        'precisions = ["bf16"]',
        'raises = "ValueError"',
        'match = "it breaks"',
        f'where = "{BLOCK}"',
        "# seen by many",
        'fixed-by = "https://example.org/2"',
        'note = "A person\'s."',
        "[[tool.repromatrix.fails]]",
        'when = ["transformers>=4.50.0,<4.50.2"]',
        'precisions = ["bf16"]',
        'raises = "ValueError"',
        'match = "it breaks"',
        f'where = "{ATTENTION}"',
    ]


def test_a_function_that_was_moved_stands_in_one_entry_twice(places: Paths) -> None:
    toy = Toy(places, case_text(BREAKS)).measured("+aamm+")

    assert _block(toy.accept())[-1] == f'where = ["{ATTENTION}", "{MOVED}"]'


def test_what_a_person_holds_for_one_place_stays_one(places: Paths) -> None:
    told = f'{BREAKS}where = ["{BLOCK}", "{ATTENTION}"]\n'
    toy = Toy(places, case_text(told)).measured("+aabb+")

    assert toy.accept() == toy.text


def test_a_place_that_no_result_has_any_more_goes(places: Paths) -> None:
    told = f'{BREAKS}where = ["{BLOCK}", "{ATTENTION}"]\n'
    toy = Toy(places, case_text(told)).measured("+aaaa+")

    assert toy.accept() == case_text(f'{BREAKS}where = "{ATTENTION}"\n')


def test_a_failure_in_a_new_place_gets_an_entry_of_its_own(places: Paths) -> None:
    told = f'{BREAKS}where = "{ATTENTION}"\n'
    toy = Toy(places, case_text(told)).measured("+aaab+")
    block = _block(toy.accept())

    assert [line for line in block if line.startswith(("when", "where"))] == [
        'when = ["transformers>=4.50.0,<4.50.3"]',
        f'where = "{ATTENTION}"',
        'when = ["transformers>=4.50.3,<4.51.0"]',
        f'where = "{BLOCK}"',
    ]


def test_of_several_texts_each_part_keeps_those_that_are_said_there(places: Paths) -> None:
    other = failed(message="it melts", place=BLOCK)
    both = BREAKS.replace('"it breaks"', '["it breaks", "it melts", "on a GPU it burns"]')
    both = both.replace('precisions = ["bf16"]\n', "")
    toy = Toy(places, case_text(both.replace("4.50,<4.51", "4.50")))
    block = _block(toy.measured("+aaaaa", "+-----", other).accept())

    assert [line for line in block if line.startswith(("precisions", "match", "where"))] == [
        'match = ["it breaks", "on a GPU it burns"]',
        'precisions = ["bf16"]',
        f'where = "{ATTENTION}"',
        'precisions = ["fp16"]',
        'match = ["it melts", "on a GPU it burns"]',
        f'where = "{BLOCK}"',
    ]


@pytest.mark.parametrize("recorded", ["", 'fixed-by = "https://example.org/2"\n'])
def test_a_measured_fix_that_is_not_on_record_is_proposed_and_not_written(
    places: Paths, recorded: str
) -> None:
    toy = Toy(places, case_text(BREAKS + recorded)).measured("+----+")
    key = ("toy_breaks", "", "bf16", "cpu", "fix", "4.50.3", "4.51.0")
    fix = PinnedCommit(*key, "transformers", "c" * 40, date="2025-03-28", pull_request="8")
    commits.keep(places, fix)
    text = io.StringIO()

    rewrite(places, AcceptOptions(cases=["toy_breaks"]), Console(file=text, width=500))
    summary, *proposed = text.getvalue().splitlines()

    assert summary == "0 of 1 case rewritten; review the diff."
    assert toy.path.read_text() == toy.text
    why = f"entry 1 of `fails` names no fix; measured: {fix.label}. To put it on record, add"
    line = '# fixed-by = "https://github.com/huggingface/transformers/pull/8"'
    assert proposed == ([] if recorded else [f"cases/toy_breaks.py: {why}", line])


def test_an_entry_that_is_right_stays_as_its_author_wrote_it(places: Paths) -> None:
    toy = Toy(places, case_text(NOTED)).measured("+----+")

    assert toy.text == toy.accept()


def test_comments_stay_with_the_entry_below_them(places: Paths) -> None:
    second = BREAKS.replace("bf16", "fp16").replace("it breaks", "it melts")
    two = f'\n# first: a reason{BREAKS}\n# second: another{second}note = "A person\'s."\n'
    toy = Toy(places, case_text(two)).measured("++++++", "+----+", failed(message="it melts"))

    assert toy.accept() == case_text(f'\n# second: another{second}note = "A person\'s."\n')


def test_a_blank_line_inside_an_entry_keeps_what_stands_below_it(places: Paths) -> None:
    split = BREAKS + '\nfixed-by = "https://example.org/2"\n'
    toy = Toy(places, case_text(split)).measured(
        "+----+", "--++++", failed("KeyError", "'another'")
    )
    lines = _block(toy.accept())

    assert lines[5] == 'fixed-by = "https://example.org/2"'
    assert lines[6] == "[[tool.repromatrix.fails]]"


def test_an_entry_for_one_device_stays_for_it(places: Paths) -> None:
    only = BREAKS + 'devices = ["cpu"]\n'
    toy = Toy(places, case_text(only)).measured("+--+++")

    assert toy.accept() == toy.text.replace(">=4.50,<4.51", ">=4.50.0,<4.50.2")


def test_a_line_end_in_the_code_is_left_alone(places: Paths) -> None:
    text = case_text(BREAKS, code='"""A toy."""\n\nX = """a\r\nb"""\n')
    toy = Toy(places, text).measured("+--+++")
    toy.accept()

    assert b"a\r\nb" in toy.path.read_bytes()


@pytest.mark.parametrize("outcome", [Outcome.UNBUILDABLE, Outcome.OUT_OF_MEMORY, Outcome.NOT_RUN])
@pytest.mark.parametrize("release", ["4.50.0", "main"])
def test_what_the_machine_decided_on_a_gpu_is_no_evidence_of_any(
    places: Paths, outcome: Outcome, release: str
) -> None:
    toy = Toy(places, case_text()).measured("+--+++")
    loaded = project.load(places)
    at = cell(release, device=Device.CUDA)
    ran = provenance(loaded.cases["toy_breaks"], loaded.environments[release])
    store = Store(places.store, print)
    if outcome is Outcome.UNBUILDABLE:
        store.put(*not_built([at], loaded.cases, "no such torch", "2"))
    else:
        store.put(seen(outcome, at, ran=ran))
    store.close()

    assert 'when = ["transformers>=4.50.0,<4.50.2"]' in toy.accept()
    assert "devices" not in toy.path.read_text()


def test_where_one_case_is_refused_none_is_written(places: Paths) -> None:
    toy = Toy(places, case_text()).measured("+--+++")
    shutil.copy(toy.path, places.cases / "toy_melts.py")
    options = AcceptOptions(cases=["toy_*"])

    with pytest.raises(RunnerError, match=r"toy_melts\.py: evidence: there are no results"):
        rewrite(places, options, Console(quiet=True))
    assert toy.text == toy.path.read_text()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("'HybridCache' object has no attribute 'float'",) * 2,
        ("sizes (2, 3) and (4, 5) must match\nmore", "must match"),
        ("Error(s) in loading:\n\tsize mismatch for x", "size mismatch for x"),
        ("cannot open /a/b/c.bin", "cannot open"),
        ("12", "12"),
        ("", ""),
    ],
)
def test_the_telling_part_of_a_message_holds_nothing_that_varies(
    message: str, expected: str
) -> None:
    assert fragment(message) == expected
    assert expected in message


def _environment(name: str, peft: str, source: Source = Source.PAIR) -> tuple[str, Environment]:
    pins = {"transformers": name.partition("+")[0], "peft": peft, "torch": "2.13.0"}
    return name, Environment(name=name, source=source, python="3.11", pins=pins, markers={})


def test_the_package_of_the_pairs_is_named_where_it_decides() -> None:
    known = dict(
        [
            _environment("4.49.0", "0.14.0", Source.RELEASE),
            _environment("4.53.3", "0.16.0", Source.RELEASE),
            _environment("4.53.3+peft0.15.2", "0.15.2"),
        ]
    )

    assert spans(known, {"4.49.0", "4.53.3+peft0.15.2"}, ["4.53.3+peft0.15.2"]) == (
        ("peft>=0.14.0,<0.16.0",),
    )
    assert spans(known, {"4.53.3+peft0.15.2"}, ["4.53.3+peft0.15.2"]) == (
        ("peft>=0.15.2,<0.16.0",),
    )


def test_both_packages_are_named_where_neither_decides_alone() -> None:
    pairs = ["4.57.6+peft0.17.1", "5.0.0+peft0.17.1"]
    known = dict(
        [
            _environment("4.57.6", "0.18.0", Source.RELEASE),
            _environment("5.0.0", "0.18.0", Source.RELEASE),
            *(_environment(name, "0.17.1") for name in pairs),
        ]
    )

    assert spans(known, {"5.0.0+peft0.17.1"}, pairs) == (
        ("peft>=0.17.1,<0.18.0", "transformers>=5.0.0"),
    )


def test_what_no_interval_describes_is_not_described() -> None:
    known = dict(
        [
            _environment("4.49.0", "0.14.0", Source.RELEASE),
            _environment("4.49.0+timm", "0.14.0"),
        ]
    )

    assert spans(known, {"4.49.0"}, []) == ()


def test_new_entries_stand_behind_the_last_and_before_the_claims() -> None:
    claims = (
        '\n[[tool.repromatrix.claims]]\nreport = "https://example.org/1"\nsays = "It breaks."\n'
    )
    entry = Written(keys={"when": ["transformers>=4.52"], "raises": "KeyError", "match": 'a "b"'})
    text = rewritten(case_text(BREAKS + claims), "toy.py", [0], [entry])
    lines = [line for line in text.splitlines() if line.startswith("# [[")]

    assert [line.strip("# []").rpartition(".")[2] for line in lines] == ["fails", "fails", "claims"]
    assert text.endswith(case(BREAKS + claims).script.code)
