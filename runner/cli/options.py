"""The command line's application, and the options that commands share."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar, get_args, get_type_hints

import typer

from repromatrix.runner.errors import ExitCode, OldFault, refuse
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.planning.selection import SelectionRequest

if TYPE_CHECKING:
    from rich.console import Console

_Options = TypeVar("_Options")
SELECTION = "Selection"
"""The panel of the options that select cells, in the help of every command."""

app = typer.Typer(
    name="runner",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(help="Measure reported dtype bugs on every release of transformers.")
def program() -> None:
    """Make this a group: typer takes an application of one command for that command."""


Cases = Annotated[
    Sequence[str],
    typer.Option(
        "--case",
        help="A case by name or glob, or a path to your own file.",
        rich_help_panel=SELECTION,
    ),
]
Areas = Annotated[
    Sequence[str],
    typer.Option("--area", help="Only cases of this area.", rich_help_panel=SELECTION),
]
Models = Annotated[
    Sequence[str],
    typer.Option(
        "--model", help="Only cases of this model, by name or glob.", rich_help_panel=SELECTION
    ),
]
Releases = Annotated[
    Sequence[str],
    typer.Option(
        "--release",
        help='A name, a comma list, or a specifier: ">=4.50,<4.52".',
        rich_help_panel=SELECTION,
    ),
]
Precisions = Annotated[
    Sequence[str],
    typer.Option("--precision", help="fp32, bf16 or fp16.", rich_help_panel=SELECTION),
]
Workarounds = Annotated[
    Sequence[str],
    typer.Option(
        "--workaround",
        help="A workaround by name; `none` selects the plain case.",
        rich_help_panel=SELECTION,
    ),
]
OneWorkaround = Annotated[
    str, typer.Option("--workaround", help="Run the case with this workaround.")
]
Walls = Annotated[
    bool | None,
    typer.Option(
        "--sandbox/--no-sandbox",
        help="Run cases in a bubblewrap sandbox (default in CI where available).",
        show_default=False,
    ),
]
OnDevice = Annotated[Device, typer.Option("--device", help="The device to compute on.")]
Rerun = Annotated[bool, typer.Option("--rerun", help="Re-run cells that already have results.")]
AnyFailure = Annotated[
    bool,
    typer.Option("--any-failure", help="Treat any failure as bad, not only the described one."),
]
Format = Annotated[
    str, typer.Option("--format", help="Output format: text, markdown (to paste) or json.")
]


@dataclass(frozen=True, kw_only=True, slots=True)
class CellOptions(SelectionRequest):
    """The options that select cells, for commands that have no other option for it."""

    case: Cases = ()
    area: Areas = ()
    release: Releases = ()
    precision: Precisions = ()
    workaround: Workarounds = ()


def command(
    name: str,
) -> Callable[[Callable[[_Options], ExitCode]], Callable[[_Options], ExitCode]]:
    """Register a command that takes one dataclass, whose annotated fields are its options.

    A field without a typer annotation is no option and keeps its default.
    """

    def register(function: Callable[[_Options], ExitCode]) -> Callable[[_Options], ExitCode]:
        hints = get_type_hints(function)
        record = next(hint for key, hint in hints.items() if key != "return")

        @functools.wraps(function)
        def call(**typed: Any) -> NoReturn:  # noqa: ANN401 - whatever the fields are
            raise typer.Exit(function(record(**typed)))

        call.__signature__ = inspect.Signature(_parameters(record))  # type: ignore[attr-defined]
        app.command(name)(call)
        return function

    return register


def _parameters(record: type) -> list[inspect.Parameter]:
    hints = get_type_hints(record, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=_annotation(hints[field.name]),
        )
        for field in dataclasses.fields(record)
        if hasattr(hints[field.name], "__metadata__")
    ]


def _annotation(hint: Any) -> Any:  # noqa: ANN401 - a form of typing
    """Return a field's annotation for typer, which knows lists and no other sequences."""
    plain, *settings = get_args(hint)
    return Annotated[list[str], *settings] if plain == Sequence[str] else hint


def stated(ctx: typer.Context, param: typer.CallbackParam, value: str) -> str:
    """Return what stands behind an option; raises RunnerError where it was named with nothing.

    A variable that is not set would else widen a run to all that it was to leave out.
    """
    name = param.name or ""
    source = ctx.get_parameter_source(name)
    if value or source is None or source.name != "COMMANDLINE":
        return value
    allowed = f"a value as {param.metavar}, or no --{name}"
    raise refuse(OldFault(where=f"--{name}", found="nothing", allowed=allowed))


def told() -> Console:
    """Return where people are told things; standard output is for what programs read."""
    from rich.console import Console  # noqa: PLC0415 - who has nothing to tell does without

    return Console(stderr=True, highlight=False, soft_wrap=True)
