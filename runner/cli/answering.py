"""Commands that answer: what differs."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli.options import Areas, Cases, OnDevice, Precisions, Workarounds, app, told
from runner.model.outcomes import Device
from runner.places import Places
from runner.planning.selection import Wish


@app.command()
def diff(  # noqa: PLR0913, PLR0917
    before: Annotated[str, typer.Argument(help="An environment: 5.23.0.")],
    after: Annotated[
        str, typer.Argument(help="An environment, or the path of a checkout: ./transformers.")
    ],
    case: Cases = [],  # noqa: B006
    area: Areas = [],  # noqa: B006
    precision: Precisions = [],  # noqa: B006
    workaround: Workarounds = [],  # noqa: B006
    device: OnDevice = Device.CPU,
    format: Annotated[str, typer.Option("--format", help="text, markdown or json.")] = "text",  # noqa: A002
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Cells at once; 0 is all cores.")
    ] = 0,
    *,
    rerun: Annotated[bool, typer.Option("--rerun", help="Run also what is known.")] = False,
) -> None:
    """Print what differs between two environments, or a release and a checkout."""
    from runner.commands.diff import Comparing, compare_sides  # noqa: PLC0415

    wish = Wish(case=case, area=area, precision=precision, workaround=workaround, device=device)
    options = Comparing(
        before=before, after=after, wish=wish, format=format, jobs=jobs, rerun=rerun
    )
    raise typer.Exit(compare_sides(Places(), options, told()))
