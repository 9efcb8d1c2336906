"""What commands print, good and bad, is what lies in `expected/`.

`pytest tests/cli --regenerate` writes there what they print now: a new wording is a diff to review.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import documents
import pytest
import surroundings
from documents import Example, Printed
from surroundings import Surroundings
from typer import rich_utils
from typer.main import get_command

from repromatrix.commands import COMMANDS
from repromatrix.runner import cli
from repromatrix.runner.environments import uv
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.evidence import snapshot
from repromatrix.runner.execution import sandbox
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from collections.abc import Iterator

EXPECTED = Path(__file__).parent / "expected"
EXAMPLES = [example for path in sorted(EXPECTED.glob("*.md")) for example in documents.read(path)]
REFUSED = {ExitCode.BAD_INPUT, ExitCode.NOTHING_SELECTED}
"""The exit codes of commands that leave the checkout as it was."""
STATE = {".nox", ".repromatrix"}
"""The folders in which a machine keeps what is its own."""
PROCESS = [sys.executable, "-m", "repromatrix"]
"""How people start the program; in this process it is `cli.main`."""
COMMAND = functools.cache(get_command)
"""typer puts the program together for each call, of what does not change."""

VARYING = {
    "<checkout>": "{root}",
    "<what uv says>": r"(?<=\()error: .*?(?=\)(?:\.|; \d|\n))|\berror: .*?(?=; allowed|\n)",
    "<seconds>": r"(?<=measured in )\d+|\d+(?= core-seconds)|(?<=drawn after )\d+",
}
"""What differs from one machine or day to another, behind what stands for it.

What uv says ends where our own words go on: whoever rewords those looks here, too.
"""

ALIKE: dict[str, object] = {
    "repromatrix.runner.worker.process_control.unenforceable": [],
    "repromatrix.runner.execution.cgroup.can_count": True,
    "repromatrix.runner.execution.hardware.has_cuda": False,
}
"""What is asked of the machine, and what is answered here."""
DAY = "2026-12-01"
"""Taken for today."""


def prepared(
    example: Example, root: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> Surroundings:
    """Make the surroundings that an example asks for."""
    here = Surroundings(root=root, shared=shared)
    for name, answer in ALIKE.items():
        monkeypatch.setattr(name, lambda answer=answer: answer)
    # What it was told is kept for the whole process: without this, who built before can build here.
    monkeypatch.setattr(uv, "_told", lambda: (uv.for_uv({}, os.environ), ("--no-index",)))
    for name in [name for name in os.environ if name.startswith("REPROMATRIX_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(snapshot.TODAY, DAY)
    # What one example learned of the machine answers for no other.
    sandbox.trouble.cache_clear()
    for given in example.givens:
        surroundings.prepare(here, given)
    for name, value in here.environ.items():
        monkeypatch.setenv(name, value)
    return here


def held(*folders: Path) -> dict[Path, bytes]:
    """Return the files that are no state of this machine."""
    found = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in found if not STATE.intersection(path.parts)}


def called(
    arguments: tuple[str, ...], here: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> Printed:
    """Call a command; what varies is taken out of what it prints."""
    call = _in_a_process if here.own_process else _in_here
    done = call(arguments, here, monkeypatch)
    out, err = (settled(text, here.root) for text in (done.out, done.err))
    return Printed(out=out, err=err, code=done.code)


def settled(text: str, root: Path) -> str:
    """Put into a text what stands for the things that vary.

    No line of it ends in spaces: typer fills its lines up.
    """
    for stand_in, pattern in VARYING.items():
        text = re.sub(pattern.replace("{root}", re.escape(str(root))), stand_in, text)
    return re.sub(r"(?m) +$", "", text)


def _in_a_process(arguments: tuple[str, ...], here: Surroundings, _: pytest.MonkeyPatch) -> Printed:
    """Call it as people do; the checkout is this one, whatever stands in `here`."""
    kept = {name: value for name, value in os.environ.items() if name not in surroundings.UNSET}
    done = subprocess.run(
        [*PROCESS, *arguments],
        cwd=ROOT,
        env={**kept, "REPROMATRIX_STORE": str(here.root / "evidence.sqlite")},
        input=here.typed,
        capture_output=True,
        text=True,
        check=False,
    )
    return Printed(out=done.stdout, err=done.stderr, code=done.returncode)


def _in_here(
    arguments: tuple[str, ...], here: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> Printed:
    """Call it in this process, on the checkout that the surroundings made."""
    defaults = Paths.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "root", here.root)
    monkeypatch.chdir(here.root)
    monkeypatch.setattr(sys, "argv", [cli.PROGRAM, *arguments])
    # Beside Ray, which a test of a cluster may have imported here, the program ends its process.
    monkeypatch.setattr(cli, "_leave", sys.exit)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(here.typed.encode())))
    for name in surroundings.UNSET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("typer.main.get_command", COMMAND)
    # typer asked the surroundings when it was imported.
    monkeypatch.setattr(rich_utils, "FORCE_TERMINAL", None)
    monkeypatch.setattr(rich_utils, "MAX_WIDTH", None)
    out, err = io.StringIO(), io.StringIO()
    heard = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with _undone(), heard[0], heard[1], pytest.raises(SystemExit) as ended:
        cli.main()
    return Printed(out=out.getvalue(), err=err.getvalue(), code=int(ended.value.code or 0))


@contextlib.contextmanager
def _undone() -> Iterator[None]:
    """Undo what the program does to a process that it takes for its own."""
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    folder, collects, environ = tempfile.tempdir, gc.isenabled(), dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environ)
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
        tempfile.tempdir = folder
        gc.unfreeze()
        if collects:
            gc.enable()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for what no example changes, and register every command."""
    cli.register("")
    return tmp_path_factory.mktemp("shared")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_command_prints_what_is_expected(
    example: Example,
    tmp_path: Path,
    shared: Path,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    here = prepared(example, tmp_path, shared, monkeypatch)
    before = held(tmp_path, shared)
    actual = called(example.arguments, here, monkeypatch)
    if actual.code in REFUSED:
        assert held(tmp_path, shared) == before
    if pytestconfig.getoption("--regenerate"):
        text = example.path.read_text()
        example.path.write_text(documents.rewritten(text, example.title, actual))
        return

    assert example.printed == actual


def test_an_example_ends_no_process_in_which_ray_was_imported(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    here = prepared(EXAMPLES[0], tmp_path, shared, monkeypatch)

    assert called(EXAMPLES[0].arguments, here, monkeypatch) == EXAMPLES[0].printed


def test_every_example_has_a_name_of_its_own() -> None:
    twice = [name for name, times in Counter(one.name for one in EXAMPLES).items() if times > 1]

    assert twice == []


def test_every_document_stands_as_it_would_be_written() -> None:
    for example in EXAMPLES:
        text = example.path.read_text()
        assert text == documents.rewritten(text, example.title, example.printed), example.name


def test_every_step_is_taken_by_an_example() -> None:
    taken = {surroundings.step(given)[0] for example in EXAMPLES for given in example.givens}

    assert taken == set(surroundings.STEPS)


def test_every_stand_in_stands_in_an_example() -> None:
    texts = "".join(one.printed.out + one.printed.err for one in EXAMPLES)

    assert [name for name in VARYING if name not in texts] == []


def test_every_command_shows_its_help(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Surroundings(root=tmp_path, shared=shared)
    for command in COMMANDS:
        printed = called((command.name, "--help"), here, monkeypatch)
        assert (printed.code, command.says[:20] in printed.out) == (0, True), command.name


def test_every_bad_file_of_the_corpus_is_checked_by_an_example() -> None:
    expected = {path.name for path in (ROOT / "tests" / "fixtures" / "bad_corpus").glob("*.py")}
    copied = {given.text for example in EXAMPLES for given in example.givens}
    actual = {name for name in expected if any(f"/bad_corpus/{name}`" in text for text in copied)}

    assert expected == actual
