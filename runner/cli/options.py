"""The command line's application, and the options that commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from runner.errors import Fault, refuse
from runner.model.outcomes import Device

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    name="runner",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Measure reported dtype bugs on every release of transformers.",
)

Cases = Annotated[
    list[str], typer.Option("--case", help="A case by name, a glob, or a path to a file of yours.")
]
Areas = Annotated[list[str], typer.Option("--area", help="Cases of one area.")]
Models = Annotated[list[str], typer.Option("--model", help="Cases of a model, by name or glob.")]
Releases = Annotated[
    list[str],
    typer.Option("--release", help='A name, a comma list, or a specifier: ">=4.50,<4.52".'),
]
Precisions = Annotated[list[str], typer.Option("--precision", help="fp32, bf16 or fp16.")]
Workarounds = Annotated[
    list[str],
    typer.Option("--workaround", help="A workaround by name; `none` is the plain case."),
]
Walls = Annotated[
    bool | None,
    typer.Option(
        "--sandbox/--no-sandbox",
        help="Wall cells in with bubblewrap; in CI they are, where it works.",
        show_default=False,
    ),
]
OnDevice = Annotated[Device, typer.Option("--device", help="Where the cells compute.")]


def stated(ctx: typer.Context, param: typer.CallbackParam, value: str) -> str:
    """Return what stands behind an option; raises RunnerError where it was named with nothing.

    A variable that is not set would else widen a run to all that it was to leave out.
    """
    name = param.name or ""
    source = ctx.get_parameter_source(name)
    if value or source is None or source.name != "COMMANDLINE":
        return value
    allowed = f"a value as {param.metavar}, or no --{name}"
    raise refuse(Fault(where=f"--{name}", found="nothing", allowed=allowed))


def told() -> Console:
    """Return where people are told things; standard output is for what programs read."""
    from rich.console import Console  # noqa: PLC0415 - who has nothing to tell does without

    return Console(stderr=True, highlight=False, soft_wrap=True)
