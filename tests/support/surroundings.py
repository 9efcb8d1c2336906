"""What the examples may start from: each step is the text behind a `Given`."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import small_checkout
from factories import case_text
from histories import History, git, sources
from rich.console import Console

from repromatrix.runner import project
from repromatrix.runner.cli.publish import publish_all
from repromatrix.runner.evidence.database import VERSION
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from documents import Given

    from repromatrix.runner.model.observation import Observation

UNSET = ("CI", "FORCE_COLOR", "GITHUB_ACTIONS", "NO_COLOR", "PY_COLORS", "TERMINAL_WIDTH")
"""What would make a command print otherwise, were it set where the tests are run."""
SET = {"COLUMNS": "120", "PIP_NO_INDEX": "1", "UV_NO_CACHE": "1", "UV_OFFLINE": "1"}
"""A width for help, and no way to fetch anything: who would build is told so at once."""


@dataclass(kw_only=True, slots=True)
class Surroundings:
    """Where a command is called, and how."""

    root: Path
    shared: Path
    """Where that is which no example changes."""
    environ: dict[str, str] = field(default_factory=lambda: dict(SET))
    typed: str = ""
    """What stands on standard input."""
    own_process: bool = False


STEPS: dict[str, Callable[..., None]] = {}


def given(pattern: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register what is done for a `Given`; `{}` in it stands for something in backticks."""

    def register(step: Callable[..., None]) -> Callable[..., None]:
        STEPS[pattern] = step
        return step

    return register


def prepare(here: Surroundings, one: Given) -> None:
    """Do what a `Given` says."""
    pattern, words = step(one)
    STEPS[pattern](here, *words, *([one.block] if pattern.endswith(":") else []))


def step(one: Given) -> tuple[str, tuple[str, ...]]:
    """Return which step a `Given` is, with its words; raises LookupError where it is none."""
    for pattern in STEPS:
        found = re.fullmatch(re.escape(pattern).replace(r"\{\}", "`([^`]*)`"), one.text)
        if found:
            return pattern, found.groups()
    message = f"Given {one.text!r}: no step of {__file__} is like that"
    raise LookupError(message)


@given("this checkout")
def _this_checkout(here: Surroundings) -> None:
    """Read what the repository holds, and keep whatever is made elsewhere."""
    shutil.copytree(ROOT / "cases", here.root / "cases")  # a link would be followed in messages
    (here.root / "environments").symlink_to(ROOT / "environments")
    (here.root / "reports").mkdir()
    (here.root / "reports" / "published").symlink_to(ROOT / "reports" / "published")


@given("a small checkout")
def _small_checkout(here: Surroundings) -> None:
    """Have six real environments and one case, `toy_breaks`, of which nothing is known."""
    (here.root / "environments").symlink_to(_environments(here.shared))
    (here.root / "cases").mkdir()
    (here.root / "cases" / "toy_breaks.py").write_text(case_text())
    (here.root / "reports").mkdir()


def _environments(shared: Path) -> Path:
    """Return the environments of all small checkouts, made once."""
    folder = shared / "environments"
    if not folder.exists():
        small_checkout.environments(shared)
    return folder


def _own(here: Surroundings, path: str) -> Path:
    """Return a file that may be changed: what all share is copied first."""
    folder = here.root / Path(path).parts[0]
    if folder.is_symlink():
        shared = folder.readlink()
        folder.unlink()
        shutil.copytree(shared, folder)
    found = here.root / path
    found.parent.mkdir(parents=True, exist_ok=True)
    return found


@given("a process of its own")
def _own_process(here: Surroundings) -> None:
    here.own_process = True


@given("a file {} that reads:")
def _file(here: Surroundings, path: str, text: str) -> None:
    _own(here, path).write_text(text)


@given("the end of a file {} that reads:")
def _end(here: Surroundings, path: str, text: str) -> None:
    with _own(here, path).open("a") as file:
        file.write(text)


@given("a file {} with {} more lines of code")
def _long(here: Surroundings, path: str, count: str) -> None:
    _end(here, path, "x = 1\n" * int(count))


@given("a block of {} that goes on with:")
def _block(here: Surroundings, path: str, text: str) -> None:
    commented = "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())
    _replaced(here, path, f'{commented}# ///\n"""', '# ///\n"""')


@given("a file {} in which {} stands for {}")
def _replaced(here: Surroundings, path: str, new: str, old: str) -> None:
    text = _own(here, path).read_text()
    assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times"
    (here.root / path).write_text(text.replace(old, new))


@given("a file {} that is a copy of {}")
def _copy(here: Surroundings, path: str, source: str) -> None:
    """Copy a file of the checkout, or of the repository where the checkout has none."""
    own = here.root / source
    shutil.copy(own if own.exists() else ROOT / source, _own(here, path))


@given("a program {} that reads:")
def _program(here: Surroundings, path: str, text: str) -> None:
    _file(here, path, text)
    (here.root / path).chmod(0o755)


@given("no file {}")
def _none(here: Surroundings, path: str) -> None:
    _own(here, path).unlink()


@given("the variable {} set to {}")
def _variable(here: Surroundings, name: str, value: str) -> None:
    here.environ[name] = value


@given("standard input that reads:")
def _typed(here: Surroundings, text: str) -> None:
    here.typed = text


@given("cells of {} as measured, a sign per release, fp32 {}, bf16 {}, fp16 {}")
def _measured(here: Surroundings, case: str, *signs: str) -> None:
    with contextlib.closing(Store(Paths(root=here.root).store, print)) as store:
        store.put(*_rows(here, case, *signs))


@given("a store {}, a sign per release, fp32 {}, bf16 {}, fp16 {}")
def _store(here: Surroundings, path: str, *signs: str) -> None:
    """Store what another machine measured, later."""
    store = Store(here.root / path, print)
    store.put(
        *(
            replace(row, provenance=replace(row.provenance, hardware="aarch64", run="2"))
            for row in _rows(here, "toy_breaks", *signs)
        )
    )
    store.close()


@given("a store {} of a later format")
def _later(here: Surroundings, path: str) -> None:
    with contextlib.closing(sqlite3.connect(here.root / path)) as database:
        database.execute(f"PRAGMA user_version={VERSION + 1}")


@given("only {} bytes of the store {}")
def _cut(here: Surroundings, count: str, path: str) -> None:
    with (here.root / path).open("r+b") as file:
        file.truncate(int(count))


@given("a damaged row in the store {}")
def _damaged(here: Surroundings, path: str) -> None:
    with contextlib.closing(sqlite3.connect(here.root / path)) as database, database:
        database.execute("UPDATE cells SET outcome='melts' WHERE environment='4.50.0'")


@given("another database {}")
def _other_database(here: Surroundings, path: str) -> None:
    (here.root / path).parent.mkdir(exist_ok=True)
    with contextlib.closing(sqlite3.connect(here.root / path)) as database, database:
        database.execute("CREATE TABLE toys (name TEXT)")


@given("shard {} of split {} ended in the store {}")
def _ended(here: Surroundings, shard: str, split: str, path: str) -> None:
    store = Store(here.root / path, print)
    store.begin_shard(split)
    store.end_shard(shard, split, "2")
    store.close()


@given("an empty clone {}")
def _empty_clone(here: Surroundings, folder: str) -> None:
    (here.root / folder).mkdir()
    git(here.root / folder, "init", "--quiet", "--initial-branch=main")


@given("a clone {} of {}")
def _clone(here: Surroundings, folder: str, package: str) -> None:
    history = History()
    history.commit("bare", {"README.md": package})
    history.commit("first", sources("4.49.0", "works", package))
    history.tag("bare", "bare")
    history.write(here.root / folder)


def _rows(here: Surroundings, case: str, *signs: str) -> list[Observation]:
    """Return a cell per release and precision: `+` passes, `-` breaks as described, and so on."""
    loaded = project.load(Paths(root=here.root))
    return [*small_checkout.rows(loaded, case, dict(zip(Precision, signs, strict=True)))]


@given("all that is stored as published")
def _published(here: Surroundings) -> None:
    publish_all(Paths(root=here.root), Console(quiet=True))


@given("a clone {} of {} with {}")
def _cloned(here: Surroundings, folder: str, source: str, how: str) -> None:
    git(here.root / source, "config", "uploadpack.allowFilter", "true")
    address = (here.root / source).as_uri()
    git(here.root, "clone", "--quiet", "--no-checkout", how, address, folder)


@given("a named pipe {}")
def _pipe(here: Surroundings, path: str) -> None:
    os.mkfifo(here.root / path)


@given("a file {} of {} MB")
def _large(here: Surroundings, path: str, size: str) -> None:
    with (here.root / path).open("wb") as file:
        file.truncate(int(size) << 20)
