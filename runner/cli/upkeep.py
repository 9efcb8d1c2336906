"""The upkeep of a checkout: cases, locks, expectations, published evidence."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated

import typer

from runner.cli.options import app, told
from runner.places import Places


@app.command()
def check(
    files: Annotated[
        list[Path], typer.Argument(help="Case files; all of `cases/` unless named.")
    ] = [],  # noqa: B006
) -> None:
    """Check every case and every environment file, installing nothing."""
    from runner.commands.check import examine  # noqa: PLC0415

    gc.disable()  # a second of work makes no garbage that is worth looking for
    raise typer.Exit(examine(Places(), files, told()))


@app.command()
def lock(
    names: Annotated[
        list[str],
        typer.Argument(help="Releases, `4.50.0+timm`, `4.53.3+peft0.15.2`; all unless named."),
    ] = [],  # noqa: B006
    *,
    new: Annotated[bool, typer.Option("--new", help="Find releases that are missing.")] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="Only environments that have no lock yet.")
    ] = False,
) -> None:
    """Pin environments as they stood seven days after each release."""
    from runner.commands.lock import pin  # noqa: PLC0415

    raise typer.Exit(pin(Places(), names, told(), new=new, missing=missing))


@app.command()
def accept(
    cases: Annotated[
        list[str], typer.Argument(help="Cases by name or glob; all unless named.")
    ] = [],  # noqa: B006
    *,
    allow_regressions: Annotated[
        bool,
        typer.Option("--allow-regressions", help="Let a pass become an expected failure."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the difference; write nothing.")
    ] = False,
) -> None:
    """Rewrite what cases expect from what was measured, showing the difference."""
    from runner.commands.accept import Accepting  # noqa: PLC0415
    from runner.commands.accept import accept as rewrite  # noqa: PLC0415

    options = Accepting(cases=cases, allow_regressions=allow_regressions, dry_run=dry_run)
    raise typer.Exit(rewrite(Places(), options, told()))


@app.command("new-case")
def new_case(
    source: Annotated[
        str, typer.Argument(help="The address of an issue or pull request, or a script.")
    ],
    name: Annotated[str, typer.Option("--name", help="The name of the file, without `.py`.")] = "",
) -> None:
    """Begin a case from a report's address or from a script with inline dependencies."""
    from runner.commands.new_case import begin  # noqa: PLC0415

    raise typer.Exit(begin(Places(), source, name, told()))


@app.command()
def publish() -> None:
    """Write this machine's evidence of the whole grid into the repository."""
    from runner.commands.publish import publish_all  # noqa: PLC0415

    raise typer.Exit(publish_all(Places(), told()))


@app.command()
def merge(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Stores, or folders with publications.toml."),
    ],
    *,
    whole: Annotated[
        bool, typer.Option("--whole", help="Merge nothing unless these are all shards of a run.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would come in; write nothing.")
    ] = False,
) -> None:
    """Bring evidence of shards and other machines into this machine's store."""
    from runner.commands.merge import Options  # noqa: PLC0415
    from runner.commands.merge import merge as bring  # noqa: PLC0415

    gc.disable()
    options = Options(files=files, whole=whole, dry_run=dry_run)
    raise typer.Exit(bring(Places(), options, told()))
