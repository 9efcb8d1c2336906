"""The index gives the answers that all rows give, and is made anew where it could not be kept."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import pickle
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case_text, cell, installed, provenance, seen
from small_checkout import Toy, checkout

from repromatrix.runner import project
from repromatrix.runner.audit import asking, index, render, render_advice
from repromatrix.runner.audit.advice import advise
from repromatrix.runner.audit.hits import Audit, audit
from repromatrix.runner.audit.index import EvidenceIndex
from repromatrix.runner.audit.known import KnownEvidence, known
from repromatrix.runner.cli.audit import told
from repromatrix.runner.document import write
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import answers as evidence
from repromatrix.runner.evidence import kept
from repromatrix.runner.evidence.commits import known_commits
from repromatrix.runner.evidence.snapshot import newest
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.model.outcomes import Outcome
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import SelectionRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from repromatrix.runner.audit.packages import Installed
    from repromatrix.runner.model.observation import Observation

FORMATS = ("json", "text", "markdown", "sarif", "github")
FAILS = "+-++++"
"""What the toy does on each release."""


def asked(paths: Paths, mine: Installed) -> Audit:
    loaded, question, *_ = asking.asked(paths, SelectionRequest())
    return audit(mine, asking.known_of(loaded, question, print, mine), question)


def answers(paths: Paths, mine: Installed) -> dict[str, str]:
    """Return every answer about some packages, in every format."""
    found = asked(paths, mine)
    loaded, question, *_ = asking.asked(paths, SelectionRequest())
    advice = advise(asking.known_of(loaded, question, print, workarounds=True), question)
    return {
        **{form: told(found, form) for form in FORMATS},
        "verbose": write(render.document(found, verbose=True), "text"),
        "advice": write(render_advice.document(advice), "json"),
    }


def of_all_rows(
    loaded: EvidenceIndex,
    names: set[str],
    _keep: object,
    torch: str,
    local: list[Observation],
) -> KnownEvidence:
    """Return what is known when every row is read and the rule of all decides."""
    rows = [*evidence.published_rows(loaded.paths, names), *local]
    checkout_ = project.load(loaded.paths, code=False)
    if torch:
        rows += evidence.under_torches(loaded.paths, names)
        held = {row.cell.environment for row in rows}
        checkout_ = project.with_torches(checkout_, loaded._telling(names, held, torch))
    commits = known_commits(loaded.paths).values()
    found = known(checkout_.cases, checkout_.environments, rows, commits, torch)
    return dataclasses.replace(found, snapshot=newest(loaded.paths.published))


def from_files(paths: Paths, mine: Installed) -> dict[str, str]:
    """Return the same from all rows, without an index."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "read", lambda *_: None)
        patch.setattr(kept, "keep", lambda *_: None)
        patch.setattr(EvidenceIndex, "known", of_all_rows)
        return answers(paths, mine)


def unread(*_: object, **__: object) -> None:
    message = "the files were read"
    raise AssertionError(message)


@pytest.mark.parametrize(
    ("transformers", "torch"),
    [
        ("4.50.0", "2.6.0"),
        pytest.param("4.57.1", "2.13.0", marks=pytest.mark.whole),
        pytest.param("5.23.0", "2.8.0+cu128", marks=pytest.mark.whole),
    ],
)
def test_answers_are_those_of_the_files(
    transformers: str, torch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, mine = Paths(), installed(transformers, torch=torch, accelerate="1.5.2", peft="0.15.1")
    expected = from_files(paths, mine)
    index.load(paths)
    monkeypatch.setattr(project, "load", unread)

    assert answers(paths, mine) == expected


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Return a checkout with evidence of one case, and no store."""
    paths = checkout(tmp_path)
    Toy(paths, case_text(BREAKS)).measured(FAILS).published()
    paths.store.unlink()
    return paths


MINE = installed("4.50.0")


def place(paths: Paths) -> Path:
    return paths.state / "index"


def test_the_second_question_reads_one_file(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    first = answers(paths, MINE)
    monkeypatch.setattr(project, "load", unread)

    assert answers(paths, MINE) == first == from_files_of(paths, monkeypatch)
    assert [hit.case.name for hit in asked(paths, MINE).hits] == ["toy_breaks"]
    assert place(paths).stat().st_mode & 0o077 == 0
    assert [path.name for path in paths.state.iterdir()] == ["index"]


def from_files_of(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.undo()
    return from_files(paths, MINE)


def _rewritten(path: Path, old: str, new: str) -> None:
    """Change a file, and nothing that its folder says of it."""
    text, facts = path.read_text(), path.stat()
    assert text.count(old)
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("cases/toy_breaks.py", "A toy breaks", "A toy shakes"),
        ("cases/toy_breaks.py", "import torch", "import  torch"),
        ("reports/published/cpu/toy_breaks.csv", ",fails,", ",times-out,"),
        ("reports/published/cpu/toy_breaks.csv", "bf16,4.50.0", "bf16,4.50.9"),
        ("reports/published/cpu/toy_breaks.json", '"case-digest": "', '"case-digest": "0'),
        ("reports/published/environments.csv", "4.50.0,", "4.50.9,"),
        ("environments/matrix.toml", 'companions = ["', 'companions = ["numpy", "'),
        ("environments/locks/4.50.0.txt", "transformers==4.50.0", "transformers==4.50.9"),
    ],
)
def test_what_is_changed_is_read_again(paths: Paths, file: str, old: str, new: str) -> None:
    def told_of(question: Callable[[Paths, Installed], dict[str, str]]) -> object:
        try:
            return question(paths, MINE)
        except RunnerError as error:
            return error.faults

    before = told_of(answers)
    _rewritten(paths.root / file, old, new)

    assert told_of(answers) == told_of(from_files) != before
    assert told_of(answers) == told_of(from_files)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda _: b"",
    "cut off": lambda kept: kept[:-100],
    "cut off in the head": lambda kept: kept[:30],
    "more": lambda kept: kept + b"\0",
    "garbage": lambda kept: b"\0" * len(kept),
    "one byte": lambda kept: kept[:-200] + bytes([kept[-200] ^ 1]) + kept[-199:],
    "of something else": lambda kept: bytes([kept[0] ^ 1]) + kept[1:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_made_again(
    paths: Paths, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answers(paths, MINE)
    place(paths).write_bytes(DAMAGES[damage](place(paths).read_bytes()))

    assert answers(paths, MINE) == expected
    monkeypatch.setattr(project, "load", unread)
    assert answers(paths, MINE) == expected


def test_what_others_can_write_is_not_read(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(paths, MINE)
    place(paths).chmod(0o666)
    monkeypatch.setattr(project, "load", unread)

    with pytest.raises(AssertionError, match="the files were read"):
        answers(paths, MINE)


@pytest.mark.parametrize("is_folder", [True, False])
def test_where_it_cannot_be_kept_the_files_answer(paths: Paths, *, is_folder: bool) -> None:
    expected = from_files(paths, MINE)
    if is_folder:
        (place(paths) / "x").mkdir(parents=True)
    else:
        paths.state.write_text("")

    assert answers(paths, MINE) == expected


def test_a_home_that_is_not_there_is_not_made(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = from_files(paths, MINE)
    monkeypatch.setattr(Paths, "state", tmp_path / "home" / ".cache" / "repromatrix")

    assert answers(paths, MINE) == expected
    assert not (tmp_path / "home").exists()
    (tmp_path / "home").mkdir()
    assert answers(paths, MINE) == expected
    assert place(paths).is_file()


def test_a_store_counts_beside_what_is_published(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = answers(paths, MINE)
    Toy(paths, case_text(BREAKS)).measured("++++++").repeated()

    assert answers(paths, MINE) == from_files(paths, MINE) != before
    monkeypatch.setattr(project, "load", unread)
    assert answers(paths, MINE) != before


def test_of_two_rows_of_a_cell_the_rule_of_all_answers(paths: Paths) -> None:
    path = paths.published / "cpu" / "toy_breaks.csv"
    lines = path.read_text().splitlines(keepends=True)
    [failing] = [line for line in lines if ",fails," in line]
    passing = next(line for line in lines if line.startswith(",bf16") and ",passes," in line)
    _, _, releases, *_ = passing.split(",")
    path.write_text("".join([*lines, passing.replace(releases, failing.split(",")[2])]))

    assert answers(paths, MINE) == from_files(paths, MINE)
    assert not asked(paths, MINE).hits


def test_what_only_this_machine_measured_under_another_torch_counts(paths: Paths) -> None:
    loaded = project.with_torches(project.load(paths), ["4.50.0+torch2.8.0"])
    toy, held = loaded.cases["toy_breaks"], loaded.environments["4.50.0+torch2.8.0"]
    row = seen(Outcome.PASSES, cell(held.name, name=toy.name), ran=provenance(toy, held))
    with contextlib.closing(Store(paths.store, print)) as store:
        store.put(row)
    mine = installed("4.50.0", torch="2.8.0")

    assert answers(paths, mine) == from_files(paths, mine)
    assert [cell.rests_on for cell in asked(paths, mine).clear if cell.precision == "bf16"] == [
        (row,)
    ]


def test_an_answer_can_be_copied(paths: Paths) -> None:
    answer = asked(paths, MINE).clear[0]

    assert answer == pickle.loads(pickle.dumps(answer)) == copy.deepcopy(answer)  # noqa: S301 - our own
