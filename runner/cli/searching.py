"""Commands that search: which release, which commit, whose package."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated

import typer

from runner.cli.options import Areas, OnDevice, Precisions, Releases, Walls, app, told
from runner.model.outcomes import Device
from runner.places import Places


@app.command()
def bisect(  # noqa: PLR0913, PLR0917
    case: Annotated[
        list[str], typer.Argument(help="Cases by name or glob, or a script of yours.")
    ] = [],  # noqa: B006
    area: Areas = [],  # noqa: B006
    release: Releases = [],  # noqa: B006
    precision: Precisions = [],  # noqa: B006
    workaround: Annotated[
        str, typer.Option("--workaround", help="Ask about a workaround of the case.")
    ] = "",
    device: OnDevice = Device.CPU,
    format: Annotated[  # noqa: A002
        str, typer.Option("--format", help="text, markdown (to paste) or json.")
    ] = "text",
    repo: Annotated[
        Path | None, typer.Option("--repo", help="A clone of transformers, accelerate or peft.")
    ] = None,
    good: Annotated[str, typer.Option("--good", help="A revision instead of the tag.")] = "",
    bad: Annotated[str, typer.Option("--bad", help="A revision instead of the tag.")] = "",
    *,
    commits: Annotated[
        bool, typer.Option("--commits", help="Go on to the commit, in the clone of --repo.")
    ] = False,
    fix: Annotated[bool, typer.Option("--fix", help="The release that heals it.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Ask every release: the first change of any history.")
    ] = False,
    any_failure: Annotated[
        bool, typer.Option("--any-failure", help="Any failure is bad, not only the described one.")
    ] = False,
    rerun: Annotated[bool, typer.Option("--rerun", help="Run also what is known.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Answer from evidence alone; run nothing.")
    ] = False,
    ahead: Annotated[
        bool, typer.Option("--ahead", help="Build both next candidates while one runs.")
    ] = False,
    sandbox: Walls = None,
) -> None:
    """Find the release that breaks a case, or heals it: evidence first, then the fewest runs."""
    from runner.commands.bisect import Options, search  # noqa: PLC0415
    from runner.commands.commits import chosen  # noqa: PLC0415

    gc.disable()
    options = Options(
        cases=case,
        area=area,
        release=release,
        precision=precision,
        workaround=workaround,
        device=device,
        format=format,
        command=sys.argv[2:],
        fix=fix,
        every=every,
        any_failure=any_failure,
        rerun=rerun,
        plan=plan,
        ahead=ahead,
        sandbox=sandbox,
        clone=chosen(repo, good, bad, commits=commits, rerun=rerun),
    )
    raise typer.Exit(search(Places(), options, told()))


@app.command()
def blame(  # noqa: PLR0913, PLR0917
    case: Annotated[str, typer.Argument(help="A case by name, or a script of yours.")],
    precision: Annotated[str, typer.Option("--precision", help="fp32, bf16 or fp16.")],
    good: Annotated[str, typer.Option("--good", help="An environment where it behaves.")],
    bad: Annotated[str, typer.Option("--bad", help="An environment where it does not.")],
    workaround: Annotated[
        str, typer.Option("--workaround", help="Ask about a workaround of the case.")
    ] = "",
    device: OnDevice = Device.CPU,
    format: Annotated[  # noqa: A002
        str, typer.Option("--format", help="text, markdown (to paste) or json.")
    ] = "text",
    sweep: Annotated[
        str, typer.Option("--sweep", help="Also every minor version of a companion: accelerate.")
    ] = "",
    *,
    any_failure: Annotated[
        bool, typer.Option("--any-failure", help="Any failure is bad, not only the described one.")
    ] = False,
    rerun: Annotated[bool, typer.Option("--rerun", help="Run also what is known.")] = False,
    sandbox: Walls = None,
) -> None:
    """Find the package that makes the difference between two environments."""
    from runner.commands.blame import Asking  # noqa: PLC0415
    from runner.commands.blame import blame as find  # noqa: PLC0415

    gc.disable()
    asking = Asking(
        case=case,
        precision=precision,
        workaround=workaround,
        good=good,
        bad=bad,
        device=device,
        any_failure=any_failure,
        format=format,
        command=sys.argv[2:],
        sweep=sweep,
        rerun=rerun,
        sandbox=sandbox,
    )
    raise typer.Exit(find(Places(), asking, told()))


@app.command(hidden=True)
def trial(plan: Path, newer: str) -> None:
    """Try the commit that is checked out beside a plan: what `git bisect run` calls."""
    from runner.commands.trial import try_commit  # noqa: PLC0415

    raise typer.Exit(try_commit(plan, newer, told()))
