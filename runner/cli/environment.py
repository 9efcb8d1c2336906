"""`environment`: pinned virtualenvs to work in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from repromatrix.runner import project
from repromatrix.runner.cli.options import app, told
from repromatrix.runner.environments import building, development
from repromatrix.runner.environments.building import Built, UnbuildableError
from repromatrix.runner.environments.locks import load_matrix
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.environment_name import asked
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import environments_of, nothing_selected
from repromatrix.runner.project import Project

if TYPE_CHECKING:
    from rich.console import Console


@app.command("environment")
def environment(
    names: Annotated[
        list[str], typer.Argument(help="Releases, `main`, or pairs: 4.53.3+peft0.15.2.")
    ],
) -> None:
    """Build pinned virtualenvs and print their paths."""
    raise typer.Exit(make(Paths(), names, told()))


def make(places: Paths, names: Sequence[str], console: Console) -> ExitCode:
    """Build environments and print where each is; exit 4 when one cannot be built."""
    loaded = project.load(places, [], [_checked(places, name) for name in names if "+" in name])
    code = ExitCode.AS_EXPECTED
    chosen = environments_of(names, loaded.names, "environment")
    if not chosen:
        raise nothing_selected({"environment": names})
    for name in chosen:
        try:
            built = _make(loaded, name)
        except UnbuildableError as error:
            console.print(f"{name}: unbuildable: {error}", markup=False)
            code = ExitCode.UNBUILDABLE
        else:
            console.print(f"{name}: {places.shown(built.python)}", markup=False)
    return code


def _checked(places: Paths, name: str) -> str:
    """Return the name of the environment whose lock a derived one needs; raises RunnerError."""
    parts = asked(name, "environment")
    newest = load_matrix(places).releases[-1].name
    return name.replace(MAIN, newest, 1) if parts.base == MAIN else name


def _make(loaded: Project, name: str) -> Built:
    if loaded.environments[name].source is Source.MAIN:
        return development.build_main(loaded.places, loaded.matrix, name)[1]
    return building.build(loaded.places, project.recipe(loaded, name))
