"""`environment`: pinned virtualenvs to work in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner import project
from runner.environments import building, development
from runner.environments.building import UnbuildableError
from runner.environments.shelf import load_matrix
from runner.errors import ExitCode
from runner.model.cell import Source
from runner.model.matrix import MAIN
from runner.model.naming import asked
from runner.planning.selection import environments_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from runner.environments.building import Built
    from runner.places import Places
    from runner.project import Project


def make(places: Places, names: Sequence[str], console: Console) -> ExitCode:
    """Build environments and print where each is; exit 4 when one cannot be built."""
    loaded = project.load(places, [], [_checked(places, name) for name in names if "+" in name])
    code = ExitCode.AS_EXPECTED
    for name in environments_of(names, loaded.names):
        try:
            built = _make(loaded, name)
        except UnbuildableError as error:
            console.print(f"{name}: unbuildable: {error}", markup=False)
            code = ExitCode.UNBUILDABLE
        else:
            console.print(f"{name}: {places.shown(built.python)}", markup=False)
    return code


def _checked(places: Places, name: str) -> str:
    """Return the name of the environment whose lock a derived one needs; raises RunnerError."""
    parts = asked(name, "environment")
    newest = load_matrix(places).releases[-1].name
    return name.replace(MAIN, newest, 1) if parts.base == MAIN else name


def _make(loaded: Project, name: str) -> Built:
    if loaded.environments[name].source is Source.MAIN:
        return development.build_main(loaded.places, loaded.matrix, name)[1]
    return building.build(loaded.places, project.recipe(loaded, name))
