"""The cases of a folder, read; every fault of every file collected."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from repromatrix.runner.errors import Fault, Problem, RunnerError, refuse
from repromatrix.runner.model.case import (
    Case,
    by_variant,
    decode,
    parse_python,
    read_case,
    read_script,
)
from repromatrix.runner.paths import Paths


def case_files(folder: Path) -> list[Path]:
    """Return the case files of a folder, by name; what begins with `_` is none, nor holds any."""
    return sorted(
        path
        for path in folder.rglob("*.py")
        if not any(part.startswith("_") for part in path.relative_to(folder).parts)
    )


def load_case(path: Path, where: str, extras: Collection[str] = (), *, code: bool = True) -> Case:
    """Read one file as a case; raises RunnerError with every fault of its block."""
    return read_case(_text(path, where, code=code), where, str(path.resolve()), extras)


def load_script(path: Path, where: str, extras: Collection[str] = (), *, code: bool = True) -> Case:
    """Read any script as a case: what it does not say of itself has a default.

    Raises RunnerError where it says something that is wrong.
    """
    return read_script(_text(path, where, code=code), where, str(path.resolve()), extras)


def _text(path: Path, where: str, *, code: bool) -> str:
    if not path.is_file():
        raise refuse(Problem(where, "the file does not exist"))
    text = decode(path.read_bytes(), where)
    if code:
        parse_python(text, where)
    return text


def load_corpus(
    paths: Paths, files: Iterable[Path], extras: Collection[str] = (), *, code: bool = True
) -> tuple[dict[str, Case], list[Fault]]:
    """Read case files; return those that are sound by name, and the faults of the others.

    `extras` are the packages that may be laid on top of a release; without `code` only the blocks
    are read. A script that lies elsewhere than the corpus needs no block.
    """
    cases: dict[str, Case] = {}
    faults: list[Fault] = []
    corpus = paths.cases.resolve()
    for path in files:
        where = paths.shown(path.resolve())
        try:
            load = load_case if path.resolve().is_relative_to(corpus) else load_script
            case = load(path, where, extras, code=code)
        except RunnerError as error:
            faults.extend(error.faults)
            continue
        for each in by_variant(case):
            if each.name in cases:
                other = cases[each.name].where
                faults.append(Problem(case.where, f"{other} has the same name", "Rename one."))
            cases[each.name] = each
    return cases, faults
