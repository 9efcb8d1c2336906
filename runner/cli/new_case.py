"""`new-case`: a case file from an issue's address or from a script with inline dependencies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repromatrix.runner import files
from repromatrix.runner.cases import load_case
from repromatrix.runner.cli.case_draft import Draft, from_address, from_script
from repromatrix.runner.cli.options import app, told
from repromatrix.runner.environments import locks
from repromatrix.runner.errors import ExitCode, Fault, OldFault, RunnerError, refuse
from repromatrix.runner.judging.lint import NAME, scrutinise
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.model.script import decode
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from rich.console import Console


@app.command("new-case")
def new_case(
    source: Annotated[
        str, typer.Argument(help="The address of an issue or pull request, or a script.")
    ],
    name: Annotated[str, typer.Option("--name", help="The name of the file, without `.py`.")] = "",
) -> None:
    """Create a case file from the address of a report, or from a script."""
    raise typer.Exit(begin(Paths(), source, name, told()))


def begin(places: Paths, source: str, name: str, console: Console) -> ExitCode:
    """Write `cases/<name>.py` and say what is left to a person; raises RunnerError instead."""
    draft = _draft(source)
    if name and not NAME.match(name):
        allowed = "<model or package>_<what>, words in lower case joined by _"
        raise refuse(OldFault(where="--name", found=repr(name), allowed=allowed))
    path = places.cases / f"{name or draft.name}.py"
    if path.exists():
        remedy = "Choose another with `--name`."
        where = places.shown(path)
        raise refuse(OldFault(where=where, found="a file", allowed="a new name", fix=remedy))
    files.write(path, draft.text)
    console.print(places.shown(path), markup=False)
    for line in draft.said:
        console.print(f"  {line}", markup=False)
    console.print("Left to you, as `nox -s check` will say:")
    for fault in _left(places, path):
        left = str(fault).removeprefix(f"{places.shown(path)}: ")
        console.print(f"  {left}", markup=False)
    return ExitCode.AS_EXPECTED


def _draft(source: str) -> Draft:
    if "://" in source:
        return from_address(source)
    path = Path(source)
    if not path.is_file():
        allowed = "the address of an issue or a pull request, or a script"
        raise refuse(OldFault(where="new-case", found=repr(source), allowed=allowed))
    return from_script(decode(path.read_bytes(), source), source)


def _left(places: Paths, path: Path) -> list[Fault]:
    matrix = locks.load_matrix(places)
    try:
        case = load_case(path, places.shown(path), matrix.extras)
    except RunnerError as error:
        return list(error.faults)
    return scrutinise(case, {}, matrix.precisions, Device)
