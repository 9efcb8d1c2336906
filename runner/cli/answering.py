"""Commands that answer: what differs, what hits, what to use."""

from __future__ import annotations

import gc
from typing import Annotated

import typer

from runner.cli.options import (
    Areas,
    Cases,
    Models,
    OnDevice,
    Precisions,
    Walls,
    Workarounds,
    app,
    told,
)
from runner.model.outcomes import Device
from runner.places import Places
from runner.planning.selection import Wish

Format = Annotated[str, typer.Option("--format", help="text, markdown (to paste) or json.")]


@app.command()
def diff(  # noqa: PLR0913, PLR0917
    before: Annotated[
        str,
        typer.Argument(
            help="An environment: 5.23.0. Or evidence: a store, a folder of published evidence,"
            " or a publication by its name."
        ),
    ],
    after: Annotated[
        str,
        typer.Argument(
            help="An environment, or the path of a checkout: ./transformers. Beside evidence,"
            " evidence."
        ),
    ],
    case: Cases = [],  # noqa: B006
    area: Areas = [],  # noqa: B006
    precision: Precisions = [],  # noqa: B006
    workaround: Workarounds = [],  # noqa: B006
    device: Annotated[
        Device | None,
        typer.Option("--device", help="Where the cells compute; cpu, of evidence every one."),
    ] = None,
    format: Format = "text",  # noqa: A002
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Cells at once; 0 is all cores.")
    ] = 0,
    *,
    rerun: Annotated[bool, typer.Option("--rerun", help="Run also what is known.")] = False,
    sandbox: Walls = None,
) -> None:
    """Print what differs: two environments, a release and a checkout, or two sets of evidence."""
    from runner.commands.diff import Comparing, compare_sides  # noqa: PLC0415

    where = device or Device.CPU
    wish = Wish(case=case, area=area, precision=precision, workaround=workaround, device=where)
    options = Comparing(
        before=before,
        after=after,
        wish=wish,
        format=format,
        jobs=jobs,
        rerun=rerun,
        every_device=device is None,
        sandbox=sandbox,
    )
    raise typer.Exit(compare_sides(Places(), options, told()))


@app.command()
def audit(  # noqa: PLR0913, PLR0917 - one argument per option
    path: Annotated[
        str,
        typer.Argument(
            help="A requirements file, uv.lock, pylock.toml, poetry.lock, what `pip freeze` prints"
            " (`-` reads it from standard input), or an interpreter; nothing is the active one."
        ),
    ] = "",
    case: Cases = [],  # noqa: B006 - typer copies it
    area: Areas = [],  # noqa: B006
    model: Models = [],  # noqa: B006
    precision: Precisions = [],  # noqa: B006
    ignore: Annotated[
        list[str], typer.Option("--ignore", help="A case, or a glob, that does not count.")
    ] = [],  # noqa: B006
    device: OnDevice = Device.CPU,
    format: Format = "text",  # noqa: A002
    *,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Every error, and everything unknown.")
    ] = False,
) -> None:
    """Say which known bugs a set of packages has, in which precision, and what avoids them."""
    gc.disable()
    from runner.commands.audit import Options, audit_packages  # noqa: PLC0415

    wish = Wish(case=case, area=area, model=model, precision=precision, device=device)
    options = Options(path=path, wish=wish, ignore=ignore, format=format, verbose=verbose)
    code = audit_packages(Places(), options, told)
    gc.freeze()  # nothing is worth being looked through at the end
    raise typer.Exit(code)


@app.command()
def advise(  # noqa: PLR0913, PLR0917
    case: Cases = [],  # noqa: B006
    area: Areas = [],  # noqa: B006
    model: Models = [],  # noqa: B006
    precision: Precisions = [],  # noqa: B006
    device: OnDevice = Device.CPU,
    format: Format = "text",  # noqa: A002
) -> None:
    """Name the newest release on which all chosen cases pass, and a specifier with its reasons."""
    gc.disable()
    from runner.commands.advise import Options, advise_release  # noqa: PLC0415

    wish = Wish(case=case, area=area, model=model, precision=precision, device=device)
    raise typer.Exit(advise_release(Places(), Options(wish=wish, format=format), told))
