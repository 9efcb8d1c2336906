"""The index gives the answers that the files give, and is left where it could not."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case_text, installed
from small_checkout import Toy, checkout

from repromatrix.runner import project
from repromatrix.runner.audit import asking, index, render, render_advice
from repromatrix.runner.audit.advice import advise
from repromatrix.runner.audit.hits import Audit, audit
from repromatrix.runner.cli.audit import told
from repromatrix.runner.document import write
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import SelectionRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from repromatrix.runner.audit.packages import Installed

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
    advice = advise(asking.known_of(loaded, question, print), question)
    return {
        **{form: told(found, form) for form in FORMATS},
        "verbose": write(render.document(found, verbose=True), "text"),
        "advice": write(render_advice.document(advice), "json"),
    }


def from_files(paths: Paths, mine: Installed) -> dict[str, str]:
    """Return the same without an index."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "load", lambda _: None)
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


class Hostile:
    """Something that calls what it likes where it is read."""

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, ("hostile",))


def _signed(kept: bytes, content: bytes) -> bytes:
    """Return an index of the same state that holds something else."""
    head = kept[: kept.index(b"\n") + 1 + 32]
    return head + hashlib.sha256(content).digest() + content


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda _: b"",
    "cut off": lambda kept: kept[:-100],
    "cut off in the head": lambda kept: kept[:30],
    "more": lambda kept: kept + b"\0",
    "garbage": lambda kept: b"\0" * len(kept),
    "one byte": lambda kept: kept[:-200] + bytes([kept[-200] ^ 1]) + kept[-199:],
    "another version": lambda kept: kept.replace(b"index 1", b"index 2", 1),
    "of something else": lambda kept: kept[:25] + bytes([kept[25] ^ 1]) + kept[26:],
    "hostile": lambda kept: _signed(kept, pickle.dumps(Hostile())),
    "no index": lambda kept: _signed(kept, pickle.dumps({"cases": {}})),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_made_again(
    paths: Paths, damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = answers(paths, MINE)
    kept = place(paths).read_bytes()
    place(paths).write_bytes(DAMAGES[damage](kept))

    assert answers(paths, MINE) == expected
    assert not (tmp_path / "hostile").exists()
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

    assert index.load(paths) is None
    assert answers(paths, MINE) == from_files(paths, MINE)
    assert not asked(paths, MINE).hits


def test_a_row_that_changed_meanwhile_is_not_shown(paths: Paths) -> None:
    answers(paths, MINE)
    [clear] = (cell for cell in asked(paths, installed("4.51.0")).clear if cell.precision == "bf16")
    path = paths.published / "cpu" / "toy_breaks.csv"
    path.write_text(path.read_text().replace("passes", "fails"))

    assert clear.measured_in == ("4.51.0",)
    with pytest.raises(RunnerError, match="it changed while it was read"):
        _ = clear.rests_on


def test_rows_are_those_of_the_files_once_they_are_asked_for(paths: Paths) -> None:
    late = asked(paths, MINE).clear[0]
    copied = pickle.loads(pickle.dumps(asked(paths, MINE).clear[0]))  # noqa: S301 - our own

    assert late == copied == copy.deepcopy(late)
    assert copied.measured_in == late.measured_in == (copied.rests_on[0].cell.environment,)
    with pytest.raises(AttributeError):
        _ = late.nothing  # type: ignore[attr-defined]
