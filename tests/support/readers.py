"""Everything that reads a text which somebody else wrote, each with real inputs to begin from."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repromatrix.runner import project
from repromatrix.runner.audit import inputs
from repromatrix.runner.audit.render import read_for
from repromatrix.runner.cases import load_script
from repromatrix.runner.compare import snapshots
from repromatrix.runner.compare.diff import CellChange
from repromatrix.runner.environments.building import Built
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.evidence import answers, published
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.execution.events import Ready
from repromatrix.runner.execution.pool import observe
from repromatrix.runner.judging.lint import scrutinise
from repromatrix.runner.model import lock, matrix
from repromatrix.runner.model.case import decode, parse_python, read_case
from repromatrix.runner.model.cell import PROTOCOL, Cell
from repromatrix.runner.model.environment_name import asked
from repromatrix.runner.model.observation import Provenance
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.paths import ROOT, Paths
from repromatrix.runner.planning import budget, shards
from repromatrix.runner.planning.selection import SelectionRequest, select
from repromatrix.runner.project import Project
from repromatrix.runner.worker.cell_process import Pipes, classify

SEEDS = Path(__file__).parents[1] / "fixtures" / "readers"
CASE = "gemma3_trainer_eval"
CELL = Cell(CASE, "", "4.50.0", Precision.BF16, Device.CPU)
_PUBLISHED = ("publications.toml", "environments.csv", f"cpu/{CASE}.csv", f"cpu/{CASE}.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One reader: bytes in, a value or an addressed error out."""

    name: str
    seeds: tuple[bytes, ...]
    read: Callable[[bytes], object]


@functools.cache
def loaded() -> Project:
    """Return the checkout with one case."""
    return project.load(Paths(), [ROOT / "cases" / f"{CASE}.py"])


def read_script_block(content: bytes) -> object:
    """Read a case as `check` does, up to what makes it a fair one."""
    text = decode(content, "cases/toy_case.py")
    parse_python(text, "cases/toy_case.py")
    case = read_case(text, "cases/toy_case.py")
    some = {name: loaded().environments[name] for name in ("4.49.0", "4.50.0")}
    faults = scrutinise(case, some, tuple(Precision), [Device.CPU])
    return case.digest, case.docstring, case.branches, faults


def read_own_script(content: bytes) -> object:
    """Read a script that need not say anything of itself."""
    with _written(content, "mine.py") as path:
        return load_script(path, "mine.py").digest


def read_checkout(content: bytes) -> object:
    """Read a checkout of two releases by a `matrix.toml`."""
    matrix.read_matrix(decode(content, matrix.WHERE))
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "environments" / "locks").mkdir(parents=True)
        (here / "cases").mkdir()
        (here / "environments" / "matrix.toml").write_bytes(content)
        for name in ("4.49.0", "4.50.0"):
            link = here / "environments" / "locks" / f"{name}.txt"
            link.symlink_to(ROOT / "environments" / "locks" / f"{name}.txt")
        (here / "cases" / f"{CASE}.py").symlink_to(ROOT / "cases" / f"{CASE}.py")
        found, faults = project.read(Paths(root=here))
        return found.names, faults


def read_lock(content: bytes) -> object:
    """Read a lock, what it installs here, and what it changes of another."""
    text = decode(content, "4.50.0.txt")
    found = lock.read_lock(text, "4.50.0", "4.50.0.txt")
    base = loaded().locks["4.49.0"]
    pins = found.versions(inputs.platform())
    return pins, lock.overlaid(base, found).digest, lock.difference(base.text, text)


def read_installed(name: str, content: bytes) -> object:
    """Read what `audit` reads, from a file of that name."""
    return read_for(inputs._from_text(content, Path(name), name))


def read_options(content: bytes) -> object:
    """Read what is typed behind the options that choose."""
    words = [*content.decode("utf-8", "replace").split("\n"), "", "", "", "", ""][:6]
    wish = SelectionRequest(
        case=words[:1], release=words[1:2], precision=words[2:3], workaround=words[3:4]
    )
    shards.shard(words[4]) if words[4] else None
    budget.seconds(words[5]) if words[5] else None
    asked(words[1], "environment")
    return select(wish, loaded().cases, loaded().names)


def read_report(content: bytes) -> object:
    """Read what a child says of itself, up to the store and back."""
    pipes = Pipes.__new__(Pipes)
    pipes.nonce, pipes.content = b"", bytearray(content)
    answer = classify("", 0, pipes.report())
    line = json.loads(json.dumps(answer).encode() + b"\n")
    row = observe(CELL, line, _provenance(), _ready())
    store = _store()
    store.put(row)
    return list(store.rows())


@functools.cache
def _store() -> Store:
    folder = tempfile.mkdtemp(prefix="repromatrix-fuzz-")
    atexit.register(shutil.rmtree, folder)
    return Store(Path(folder) / "evidence.sqlite", print)


def _provenance() -> Provenance:
    return Provenance(
        case_digest="0" * 16,
        environment_digest="0" * 16,
        packages={"transformers": "4.50.0"},
        python="3.11.7",
        torch_build="2.13.0+cpu",
        hardware="x86_64",
        protocol=PROTOCOL,
        run="fuzz",
    )


def _ready() -> Ready:
    folder = Path("environment")
    built = Built(name="4.50.0", folder=folder, python=folder / "bin" / "python", versions={})
    return Ready(environment=loaded().environments["4.50.0"], built=built, cells=())


def read_merged(content: bytes) -> object:
    """Read the store of another machine."""
    with _written(content, "other.sqlite") as path, answers.evidence(path) as (rows, _):
        return list(rows)


def read_row(content: bytes) -> object:
    """Read the store of another machine in which one value is another: column, type, value."""
    column, kind, value = (content[0], content[1], content[2:]) if len(content) > 1 else (0, 0, b"")
    with _written(_merged_seed(), "other.sqlite") as path:
        with closing(sqlite3.connect(path)) as store:
            table = ("cells", "provenances")[kind % 2]
            names = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
            with contextlib.suppress(sqlite3.Error):  # a key that is there already, no NULL …
                given = _typed(kind // 2, value)
                name = names[column % len(names)]
                store.execute(f'UPDATE {table} SET "{name}"=?', (given,))  # noqa: S608
                store.commit()
        with answers.evidence(path) as (rows, _):
            return list(rows)


def _typed(kind: int, value: bytes) -> object:
    text = value.decode("utf-8", "replace")
    return (text, value, None, len(value), float(len(value)), f'{{"a": {text}}}')[kind % 6]


def read_set(name: str, content: bytes) -> object:
    """Read a published set in which one file is another, of somebody else's and as our own."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        for one in _PUBLISHED:
            (here / one).parent.mkdir(exist_ok=True)
            (here / one).write_bytes(content if one == name else _of_the_set(one))
        with contextlib.suppress(RunnerError):
            answers.read_set(here)
        return list(published.read(here))


def read_changes(content: bytes) -> object:
    """Read what publications changed."""
    with _written(content, snapshots.NAME) as path:
        return snapshots.read_changes(path.parent)


@contextlib.contextmanager
def _written(content: bytes, name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        yield path


@functools.cache
def _of_the_set(name: str) -> bytes:
    return (ROOT / "reports" / "published" / name).read_bytes()


@functools.cache
def _merged_seed() -> bytes:
    """Return a store that holds a case's published cells of one release."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "evidence.sqlite"
        with closing(Store(path, print)) as store:
            rows = published.read(ROOT / "reports" / "published", [CASE])
            store.put(*(row for row in rows if row.cell.environment == "4.50.0"))
        return path.read_bytes()


def _report_seeds() -> tuple[bytes, ...]:
    passed: dict[str, Any] = {
        "exit": 0,
        "seconds": 0.1,
        "exercised": "yes",
        "computed": {"bfloat16": 3},
        "compiles": False,
        "measured": {"error": 0.5},
        "imported": {"torch": "environment/torch/__init__.py"},
        "claimed": {"torch": "2.13.0"},
    }
    error = {"error_class": "ValueError", "message": "it breaks", "traceback": "  File …\n"}
    return tuple(json.dumps(one).encode() for one in (passed, {**passed, **error, "exit": 1}))


def _matrix_seed() -> bytes:
    """Return the axes with two releases."""
    head, _, rest = (ROOT / "environments" / "matrix.toml").read_text().partition("releases = [\n")
    lines, _, tail = rest.partition("]\n")
    kept = "".join(lines.splitlines(keepends=True)[:2])
    return f"{head}releases = [\n{kept}]\n{tail}".encode()


def _lock_seed() -> bytes:
    text = (ROOT / "environments" / "locks" / "4.50.0.txt").read_text()
    return "\n".join(text.split("\n")[:30]).encode()


def _changes_seed() -> bytes:
    one = snapshots.Changed(
        change=CellChange.BROKE,
        case=CASE,
        workaround="",
        precision="bf16",
        device="cpu",
        environments=("4.50.0", "4.50.1"),
        before="passes",
        after="ValueError: it breaks",
    )
    record = snapshots.SnapshotRecord(
        publication="2026-11-21", date="2026-11-21", against="", changes=(one,), new=((CASE, 3),)
    )
    return snapshots.written([record]).encode()


def _cases() -> tuple[bytes, ...]:
    names = (CASE, "peft_vera_unmerge", "rt_detr_matcher_infeasible", "whisper_default_load_dtype")
    return tuple((ROOT / "cases" / f"{name}.py").read_bytes() for name in names)


def targets() -> tuple[Target, ...]:
    """Return every reader."""
    files = {path.name: path.read_bytes() for path in sorted(SEEDS.iterdir())}
    one = {
        "case": (_cases(), read_script_block),
        "script": ((b"import torch\n", *_cases()), read_own_script),
        "matrix.toml": ((_matrix_seed(),), read_checkout),
        "lock": ((_lock_seed(),), read_lock),
        "options": (
            (b"gemma3*\n>=4.50,<4.52\nbf16\nnone\n2/4\n10m", b"*\n4.50.0,main\nfp16,fp32"),
            read_options,
        ),
        "child's report": (_report_seeds(), read_report),
        "merged store": ((_merged_seed(),), read_merged),
        "merged row": (tuple(bytes([n, n]) + b'{"a": 1}' for n in range(24)), read_row),
        "changes.json": ((_changes_seed(),), read_changes),
    }
    one |= {
        name: ((text,), functools.partial(read_installed, name)) for name, text in files.items()
    }
    one |= {
        f"published {Path(name).name}": ((_of_the_set(name),), functools.partial(read_set, name))
        for name in _PUBLISHED
    }
    return tuple(Target(name=name, seeds=seeds, read=read) for name, (seeds, read) in one.items())
