"""The command line: arguments to calls, errors to exit codes."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from runner.engine.hardware import cores
from runner.errors import ExitCode, Interrupted, RunnerError
from runner.inside import cage
from runner.model.outcomes import Device
from runner.places import Places
from runner.planning.selection import Wish

if TYPE_CHECKING:
    from types import FrameType

app = typer.Typer(
    name="runner",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Measure reported dtype bugs on every release of transformers.",
)

_TWICE = 3.0

Cases = Annotated[
    list[str], typer.Option("--case", help="A case by name, a glob, or a path to a file of yours.")
]
Areas = Annotated[list[str], typer.Option("--area", help="Cases of one area.")]
Releases = Annotated[
    list[str],
    typer.Option("--release", help='A name, a comma list, or a specifier: ">=4.50,<4.52".'),
]
Precisions = Annotated[list[str], typer.Option("--precision", help="fp32, bf16 or fp16.")]
Workarounds = Annotated[
    list[str],
    typer.Option("--workaround", help="A workaround by name; `none` is the plain case."),
]
OnDevice = Annotated[Device, typer.Option("--device", help="Where the cells compute.")]


def main() -> None:
    """Run the program and end the process with its exit code."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, _Interruption())
    _end_with_door()
    try:
        app()
    except RunnerError as error:
        _end(error.code, *map(str, error.faults))
    except Interrupted:
        _end(ExitCode.INTERRUPTED, "Interrupted.")
    except Exception:  # noqa: BLE001 - whatever is left is our own fault, and says so
        _end(ExitCode.OUR_FAULT, traceback.format_exc())


def _end(code: ExitCode, *lines: str) -> NoReturn:
    for line in lines:
        print(line, file=sys.stderr)  # noqa: T201 - whole lines, whatever the terminal's width
    sys.exit(int(code))


class _Interruption:
    """A signal becomes an exception once: Ctrl-C through a door arrives twice."""

    def __init__(self) -> None:
        self.last = 0.0

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        again, self.last = time.monotonic() - self.last < _TWICE, time.monotonic()
        if not again:
            raise Interrupted


def _end_with_door() -> None:
    """Be interrupted when the nox that started us is killed."""
    door = os.environ.pop("REPROMATRIX_DOOR", "")
    if door.isdigit():
        cage.interrupt_with_parent(int(door))


def _console() -> Console:
    """Return where people are told things; standard output is for what programs read."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


@app.command()
def matrix(  # noqa: PLR0913, PLR0917 - one argument per option
    case: Cases = [],  # noqa: B006 - typer copies it
    area: Areas = [],  # noqa: B006
    release: Releases = [],  # noqa: B006
    precision: Precisions = [],  # noqa: B006
    workaround: Workarounds = [],  # noqa: B006
    device: OnDevice = Device.CPU,
    only: Annotated[
        str, typer.Option("--only", help="`unexpected`: cells whose last outcome was a surprise.")
    ] = "",
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Environments at once; 0 is all cores.")
    ] = 0,
    python: Annotated[
        Path | None, typer.Option("--python", help="A ready interpreter instead of releases.")
    ] = None,
    *,
    rerun: Annotated[bool, typer.Option("--rerun", help="Run also what is known.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print what would run; run nothing.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="An unreachable main is an error.")
    ] = False,
    trust_published: Annotated[
        bool, typer.Option("--trust-published", help="Do not run what the repository answers.")
    ] = False,
) -> None:
    """Build what is missing, run what is needed, render the report."""
    from runner.commands.matrix import Options, measure  # noqa: PLC0415

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
        jobs=jobs or cores(),
        python=python,
        rerun=rerun,
        plan=plan,
        strict=strict,
        trust_published=trust_published,
    )
    raise typer.Exit(measure(Places(), options, _console()))


@app.command()
def environment(
    names: Annotated[
        list[str], typer.Argument(help="Releases, `main`, or pairs: 4.53.3+peft0.15.2.")
    ],
) -> None:
    """Build pinned virtualenvs and print where they are."""
    from runner.commands.environment import make  # noqa: PLC0415

    raise typer.Exit(make(Places(), names, _console()))


@app.command()
def report() -> None:
    """Render the site from this machine's evidence and the published one."""
    from runner.commands.report import render_site  # noqa: PLC0415

    gc.disable()
    raise typer.Exit(render_site(Places(), _console()))


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

    wish = Wish(case=case, area=area, release=release, precision=precision, workaround=workaround)
    printing = Printing(wish=wish, device=device, format=format, wide=wide, ranges=ranges)
    raise typer.Exit(print_cells(Places(), printing, _console()))


@app.command()
def check(
    files: Annotated[
        list[Path], typer.Argument(help="Case files; all of `cases/` unless named.")
    ] = [],  # noqa: B006
) -> None:
    """Check every case and every environment file, installing nothing."""
    from runner.commands.check import examine  # noqa: PLC0415

    gc.disable()  # a second of work makes no garbage that is worth looking for
    raise typer.Exit(examine(Places(), files, _console()))


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

    raise typer.Exit(pin(Places(), names, _console(), new=new, missing=missing))


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
    raise typer.Exit(rewrite(Places(), options, _console()))


@app.command("new-case")
def new_case(
    source: Annotated[
        str, typer.Argument(help="The address of an issue or pull request, or a script.")
    ],
    name: Annotated[str, typer.Option("--name", help="The name of the file, without `.py`.")] = "",
) -> None:
    """Begin a case from a report's address or from a script with inline dependencies."""
    from runner.commands.new_case import begin  # noqa: PLC0415

    raise typer.Exit(begin(Places(), source, name, _console()))


@app.command()
def publish() -> None:
    """Write this machine's evidence of the whole grid into the repository."""
    from runner.commands.publish import publish_all  # noqa: PLC0415

    raise typer.Exit(publish_all(Places(), _console()))
