"""Commands that measure, and that show what was measured."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated

import typer

from runner.cli.optional import optional
from runner.cli.options import (
    Areas,
    Cases,
    OnDevice,
    Precisions,
    Releases,
    Walls,
    Workarounds,
    app,
    stated,
    told,
)
from runner.engine.hardware import cores
from runner.model.outcomes import Device
from runner.places import Places
from runner.planning.selection import SHOW, Wish


@app.command(cls=optional("--plan", SHOW))
def matrix(  # noqa: PLR0913, PLR0917 - one argument per option
    case: Cases = [],  # noqa: B006 - typer copies it
    area: Areas = [],  # noqa: B006
    release: Releases = [],  # noqa: B006
    precision: Precisions = [],  # noqa: B006
    workaround: Workarounds = [],  # noqa: B006
    device: OnDevice = Device.CPU,
    only: Annotated[
        str,
        typer.Option(
            "--only",
            metavar="unexpected",
            callback=stated,
            help="`unexpected`: cells whose last outcome was a surprise.",
        ),
    ] = "",
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Environments at once; 0 is all cores.")
    ] = 0,
    python: Annotated[
        Path | None, typer.Option("--python", help="A ready interpreter instead of releases.")
    ] = None,
    shard: Annotated[
        str,
        typer.Option(
            "--shard",
            metavar="I/N",
            callback=stated,
            help="One of N shares, the same on every machine.",
        ),
    ] = "",
    ray: Annotated[
        str,
        typer.Option(
            "--ray",
            metavar="ADDRESS",
            callback=stated,
            help="Run on a Ray cluster: HOST:PORT, `auto`, or `local` for this machine alone.",
        ),
    ] = "",
    plan: Annotated[
        str,
        typer.Option(
            "--plan",
            metavar="[boundaries]",
            callback=stated,
            help="Alone: print what would run; run nothing. `--plan boundaries` runs only what can"
            " decide what the cases expect, and infers the rest.",
        ),
    ] = "",
    budget: Annotated[
        str,
        typer.Option(
            "--budget",
            metavar="90s|10m|2h",
            callback=stated,
            help="End in this time; most valuable cells first.",
        ),
    ] = "",
    *,
    rerun: Annotated[bool, typer.Option("--rerun", help="Run also what is known.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run, however planned; run nothing.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="An unreachable main is an error.")
    ] = False,
    trust_published: Annotated[
        bool, typer.Option("--trust-published", help="Do not run what the repository answers.")
    ] = False,
    sandbox: Walls = None,
) -> None:
    """Build what is missing, run what is needed, render the report."""
    from runner.commands.matrix import measure  # noqa: PLC0415
    from runner.commands.measuring import Options  # noqa: PLC0415

    options = Options(
        wish=Wish(
            case=case,
            area=area,
            release=release,
            precision=precision,
            workaround=workaround,
            device=device,
        ),
        only=only,
        # A cluster counts its own cores.
        jobs=jobs or (0 if ray else cores()),
        python=python,
        shard=shard,
        rerun=rerun,
        plan=plan,
        budget=budget,
        dry_run=dry_run,
        strict=strict,
        trust_published=trust_published,
        ray=ray,
        sandbox=sandbox,
    )
    raise typer.Exit(measure(Places(), options, told()))


@app.command()
def shards(  # noqa: PLR0913, PLR0917
    count: Annotated[
        int, typer.Option("--count", min=1, max=256, help="How many shards; jobs on GitHub.")
    ],
    case: Cases = [],  # noqa: B006
    area: Areas = [],  # noqa: B006
    release: Releases = [],  # noqa: B006
    precision: Precisions = [],  # noqa: B006
    workaround: Workarounds = [],  # noqa: B006
    device: OnDevice = Device.CPU,
) -> None:
    """Print the shards of a run as the matrix of a GitHub Actions job, in JSON."""
    from runner.commands.shards import print_shards  # noqa: PLC0415

    wish = Wish(
        case=case,
        area=area,
        release=release,
        precision=precision,
        workaround=workaround,
        device=device,
    )
    raise typer.Exit(print_shards(Places(), wish, count, told()))


@app.command()
def environment(
    names: Annotated[
        list[str], typer.Argument(help="Releases, `main`, or pairs: 4.53.3+peft0.15.2.")
    ],
) -> None:
    """Build pinned virtualenvs and print where they are."""
    from runner.commands.environment import make  # noqa: PLC0415

    raise typer.Exit(make(Places(), names, told()))


@app.command()
def bundle(
    python_version: Annotated[
        str, typer.Option("--python-version", help="The Python of the machine, as 3.12.")
    ],
    platform: Annotated[
        str, typer.Option("--platform", help="The machine, in uv's words.")
    ] = "x86_64-manylinux_2_28",
    release: Releases = [],  # noqa: B006
    output: Annotated[
        Path | None, typer.Option("--output", help="The archive, a name with .tar.xz.")
    ] = None,
) -> None:
    """Make one archive that measures on a machine with its own torch and no network."""
    from runner.carrying.manifest import Target  # noqa: PLC0415
    from runner.commands.bundle import Options  # noqa: PLC0415
    from runner.commands.bundle import bundle as make_bundle  # noqa: PLC0415

    target = Target(python=python_version, platform=platform)
    options = Options(releases=release, target=target, output=output)
    raise typer.Exit(make_bundle(Places(), options, told()))


@app.command()
def report(
    base_url: Annotated[
        str,
        typer.Option("--base-url", metavar="URL", help="Where the site will lie: feed and links."),
    ] = "",
) -> None:
    """Render the site from this machine's evidence and the published one."""
    from runner.commands.report import render_site  # noqa: PLC0415

    gc.disable()
    raise typer.Exit(render_site(Places(), told(), base_url))


@app.command()
def results(  # noqa: PLR0913, PLR0917
    case: Cases = [],  # noqa: B006
    area: Areas = [],  # noqa: B006
    release: Releases = [],  # noqa: B006
    precision: Precisions = [],  # noqa: B006
    workaround: Workarounds = [],  # noqa: B006
    device: Annotated[Device | None, typer.Option("--device", help="One device only.")] = None,
    format: Annotated[str, typer.Option("--format", help="csv or json.")] = "csv",  # noqa: A002
    *,
    wide: Annotated[bool, typer.Option("--wide", help="Every flag of a cell.")] = False,
    ranges: Annotated[bool, typer.Option("--ranges", help="Failing ranges, not cells.")] = False,
) -> None:
    """Print cells with their outcome and verdict."""
    from runner.commands.results import Printing, print_cells  # noqa: PLC0415

    gc.disable()  # a hundred thousand cells are no garbage
    wish = Wish(case=case, area=area, release=release, precision=precision, workaround=workaround)
    printing = Printing(wish=wish, device=device, format=format, wide=wide, ranges=ranges)
    raise typer.Exit(print_cells(Places(), printing, told()))
