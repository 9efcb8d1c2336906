"""Expectations rewritten from evidence."""

from __future__ import annotations

import dataclasses
import shutil
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case, case_text, cell, failed, provenance, seen
from rich.console import Console

from runner import project
from runner.commands.accept import Accepting, accept
from runner.commands.publish import publish_all
from runner.errors import RunnerError
from runner.evidence.store import Store
from runner.judging.fragments import fragment
from runner.judging.intervals import spans
from runner.model.cell import Environment, Source
from runner.model.outcomes import Outcome, Precision
from runner.model.rewriting import Written, rewritten
from runner.places import ROOT, Places

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runner.model.observation import Failed, Observation

RELEASES = ("4.49.0", "4.50.0", "4.50.1", "4.50.2", "4.50.3", "4.51.0")
NOTED = f'{BREAKS}# seen by many\nfixed-by = "https://example.org/2"\nnote = "A person\'s."\n'


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Return a checkout of its own with a few of the real environments and no evidence."""
    locks = tmp_path / "environments" / "locks"
    locks.mkdir(parents=True)
    lines = (ROOT / "environments" / "matrix.toml").read_text().splitlines(keepends=True)
    ours = [line for line in lines if "{ name =" not in line or line.split('"')[1] in RELEASES]
    (tmp_path / "environments" / "matrix.toml").write_text("".join(ours))
    for release in RELEASES:
        shutil.copy(ROOT / "environments" / "locks" / f"{release}.txt", locks)
    (tmp_path / "cases").mkdir()
    (tmp_path / "reports").mkdir()
    return Places(root=tmp_path)


@dataclasses.dataclass(frozen=True, slots=True)
class Toy:
    """One case file in a checkout, and what is measured on it."""

    places: Places
    text: str

    @property
    def path(self) -> Path:
        return self.places.cases / "toy_breaks.py"

    def measured(self, bf16: str, fp16: str = "++++++", fp16_how: Failed | None = None) -> Toy:
        """Store a cell a release: `+` passes, `-` breaks as described, `!` breaks otherwise."""
        self.path.write_bytes(self.text.encode())
        self._told({Precision.FP32: "++++++", Precision.BF16: bf16})
        return self._told({Precision.FP16: fp16}, fp16_how)

    def _told(self, outcomes: Mapping[Precision, str], how: Failed | None = None) -> Toy:
        loaded = project.load(self.places)
        rows = []
        for precision, signs in outcomes.items():
            for release, sign in zip(RELEASES, signs, strict=False):
                ran = provenance(loaded.cases["toy_breaks"], loaded.environments[release])
                rows.append(_row(sign, cell(release, precision), how, ran=ran))
        store = Store(self.places.store, print)
        store.put(*(row for row in rows if row))
        store.close()
        return self

    def published(self) -> Toy:
        """Publish what is stored, so that the case is no new one."""
        publish_all(self.places, Console(quiet=True))
        return self

    def accept(self, *, allow: bool = False) -> str:
        options = Accepting(cases=["toy_breaks"], allow_regressions=allow, dry_run=False)
        accept(self.places, options, Console(quiet=True))
        return self.path.read_text()

    def refused(self) -> str:
        before = self.path.read_text()
        with pytest.raises(RunnerError) as caught:
            self.accept()
        assert before == self.path.read_text()
        return str(caught.value)


def _row(sign: str, at: object, how: Failed | None, *, ran: object) -> Observation | None:
    match sign:
        case "+":
            return seen(Outcome.PASSES, at, ran=ran)  # type: ignore[arg-type]
        case "-":
            return seen(Outcome.FAILS, at, how=how, ran=ran)  # type: ignore[arg-type]
        case "!":
            return seen(Outcome.FAILS, at, how=failed("KeyError", "'other'"), ran=ran)  # type: ignore[arg-type]
        case "~":
            return seen(Outcome.FAILS, at, unstable=True, ran=ran)  # type: ignore[arg-type]
        case _:
            return None


def _block(text: str) -> list[str]:
    """Return the lines of the `fails` entries of a case's text, without their marks."""
    lines = [line.removeprefix("#").strip() for line in text.partition("# ///\n#")[0].splitlines()]
    start = next(number for number, line in enumerate(lines) if "fails]]" in line)
    return [line for line in lines[start : lines.index("///", start)] if line]


def test_what_was_measured_becomes_half_open_intervals(places: Places) -> None:
    toy = Toy(places, case_text()).measured("+--+-+")

    assert _block(toy.accept()) == [
        "[[tool.repromatrix.fails]]",
        'when = ["transformers>=4.50.0,<4.50.2"]',
        'precisions = ["bf16"]',
        'raises = "ValueError"',
        'match = "it breaks"',
        "[[tool.repromatrix.fails]]",
        'when = ["transformers>=4.50.3,<4.51.0"]',
        'precisions = ["bf16"]',
        'raises = "ValueError"',
        'match = "it breaks"',
    ]


def test_precisions_that_fail_alike_share_an_entry_with_both_texts(places: Places) -> None:
    how = failed(message="it breaks in Half at line 7")
    toy = Toy(places, case_text()).measured("+-++++", "+-++++", how)

    assert _block(toy.accept()) == [
        "[[tool.repromatrix.fails]]",
        'when = ["transformers>=4.50.0,<4.50.1"]',
        'precisions = ["bf16", "fp16"]',
        'raises = "ValueError"',
        'match = ["it breaks", "it breaks in Half at"]',
    ]


def test_accepting_twice_changes_nothing(places: Places) -> None:
    toy = Toy(places, case_text()).measured("+--+-+")
    once = toy.accept()

    assert once == toy.accept()


def test_an_entry_that_is_right_stays_as_its_author_wrote_it(places: Places) -> None:
    toy = Toy(places, case_text(NOTED)).measured("+----+")

    assert toy.text == toy.accept()


def test_of_an_entry_that_is_wrong_only_its_interval_changes(places: Places) -> None:
    toy = Toy(places, case_text(NOTED)).measured("+--+++")

    assert toy.accept() == toy.text.replace(">=4.50,<4.51", ">=4.50.0,<4.50.2")


def test_an_entry_for_what_does_not_fail_goes(places: Places) -> None:
    toy = Toy(places, case_text(BREAKS)).measured("++++++")

    assert toy.accept() == case_text()


def test_comments_stay_with_the_entry_below_them(places: Places) -> None:
    second = BREAKS.replace("bf16", "fp16").replace("it breaks", "it melts")
    two = f'\n# first: a reason{BREAKS}\n# second: another{second}note = "A person\'s."\n'
    toy = Toy(places, case_text(two)).measured("++++++", "+----+", failed(message="it melts"))

    assert toy.accept() == case_text(f'\n# second: another{second}note = "A person\'s."\n')


def test_a_blank_line_inside_an_entry_keeps_what_stands_below_it(places: Places) -> None:
    split = BREAKS + '\nfixed-by = "https://example.org/2"\n'
    toy = Toy(places, case_text(split)).measured(
        "+----+", "--++++", failed("KeyError", "'another'")
    )
    lines = _block(toy.accept())

    assert lines[5] == 'fixed-by = "https://example.org/2"'
    assert lines[6] == "[[tool.repromatrix.fails]]"


def test_an_entry_for_one_device_stays_for_it(places: Places) -> None:
    only = BREAKS + 'devices = ["cpu"]\n'
    toy = Toy(places, case_text(only)).measured("+--+++")

    assert toy.accept() == toy.text.replace(">=4.50,<4.51", ">=4.50.0,<4.50.2")


def test_a_message_that_says_nothing_is_refused(places: Places) -> None:
    toy = Toy(places, case_text()).measured("++++++", "+-++++", failed("AssertionError", ""))

    assert "match: found ''" in toy.refused()


def test_a_line_end_in_the_code_is_left_alone(places: Places) -> None:
    text = case_text(BREAKS, code='"""A toy."""\n\nX = """a\r\nb"""\n')
    toy = Toy(places, text).measured("+--+++")
    toy.accept()

    assert b"a\r\nb" in toy.path.read_bytes()


def test_a_pass_is_not_given_up_silently(places: Places) -> None:
    toy = Toy(places, case_text(BREAKS)).measured("-----+").published()

    assert "1 cells that were expected to pass and fail: 4.49.0 bf16" in toy.refused()
    assert 'when = ["transformers>=4.49.0,<4.51.0"]' in _block(toy.accept(allow=True))


def test_unstable_cells_are_refused(places: Places) -> None:
    toy = Toy(places, case_text(BREAKS)).measured("+~---+")

    assert "1 unstable cells: 4.50.0 bf16" in toy.refused()


def test_nothing_measured_is_refused(places: Places) -> None:
    toy = Toy(places, case_text(BREAKS))
    toy.path.write_text(toy.text)

    assert "found nothing measured" in toy.refused()


def test_a_part_that_was_measured_is_refused(places: Places) -> None:
    toy = Toy(places, case_text(BREAKS)).measured("++  ++")

    assert "2 cells without current evidence: 4.50.1 bf16, 4.50.2 bf16" in toy.refused()


def test_evidence_of_another_version_of_the_case_is_refused(places: Places) -> None:
    toy = Toy(places, case_text(BREAKS)).measured("+++++")
    toy.path.write_text(case_text(BREAKS, code='"""Another toy."""\n'))

    assert "evidence of another version of the case only" in toy.refused()


def test_a_case_that_lost_its_block_is_refused(places: Places) -> None:
    toy = Toy(places, case_text(BREAKS)).measured("+----+")
    toy.path.write_text('"""A toy without a block."""\n')

    assert "no script block" in toy.refused()


def test_where_one_case_is_refused_none_is_written(places: Places) -> None:
    toy = Toy(places, case_text()).measured("+--+++")
    shutil.copy(toy.path, places.cases / "toy_melts.py")
    options = Accepting(cases=["toy_*"], allow_regressions=False, dry_run=False)

    with pytest.raises(RunnerError, match=r"toy_melts\.py: evidence: found nothing measured"):
        accept(places, options, Console(quiet=True))
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
