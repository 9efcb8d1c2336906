"""`environment`: pinned virtualenvs to work in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from repromatrix.runner import project
from repromatrix.runner.cli.options import ENVIRONMENT, Console, command
from repromatrix.runner.environments import building, development
from repromatrix.runner.environments.building import UnbuildableError
from repromatrix.runner.environments.locks import load_matrix
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.model.cell import Source
from repromatrix.runner.model.environment_name import asked
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import environments_of, nothing_selected


@command("environment")
def make(
    paths: Paths,
    names: Annotated[
        Sequence[str],
        typer.Argument(
            metavar=ENVIRONMENT, help="Releases, `main`, or pairs such as 4.53.3+peft0.15.2."
        ),
    ],
    console: Console,
) -> ExitCode:
    """Build pinned virtualenvs, and print the paths of their interpreters.

    The exit code is 4 when one cannot be built.
    """
    newest = load_matrix(paths).releases[-1].name  # `main` has no lock to extend
    derived = [
        name.replace(MAIN, newest, 1) if asked(name, ENVIRONMENT).base == MAIN else name
        for name in names
        if "+" in name
    ]
    loaded = project.load(paths, [], derived)
    code = ExitCode.AS_EXPECTED
    selected = environments_of(names, loaded.names, ENVIRONMENT)
    if not selected:
        raise nothing_selected({ENVIRONMENT: names})
    for name in selected:
        try:
            if loaded.environments[name].source is Source.MAIN:
                _, built = development.build_main(paths, loaded.matrix, name)
            else:
                built = building.build(paths, project.recipe(loaded, name))
        except UnbuildableError as error:
            console.print(f"{name}: cannot be built: {error}")
            code = ExitCode.UNBUILDABLE
        else:
            console.print(f"{name}: {paths.shown(built.python)}")
    return code
