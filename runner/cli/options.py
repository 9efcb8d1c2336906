"""The command line's application, and what commands share: options, output, the sandbox."""

from __future__ import annotations

import dataclasses
import functools
import gc
import importlib.util
import inspect
import os
import sys
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from repromatrix.commands import COMMANDS
from repromatrix.runner import project
from repromatrix.runner.cases import load_script
from repromatrix.runner.errors import Conflict, InvalidValue, Problem, refuse
from repromatrix.runner.model.case import Case, by_variant, stem_of
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import (
    CASE,
    SelectionRequest,
    named_cases,
    nothing_selected,
    one_of,
)
from repromatrix.runner.project import Project
from repromatrix.runner.text import join, plural

if TYPE_CHECKING:
    from rich.console import Console as Console  # noqa: PLC0414 - commands have it from here
else:
    Console = object  # rich takes time to import

_Command = TypeVar("_Command", bound=Callable[..., int])
ENVIRONMENT = "ENVIRONMENT"
"""The positional argument of commands that take environments by name."""
SELECTION = "Selection"
"""The panel of the options that select cells, in the help of every command."""

_SITE = ("jinja2", "pandas")
"""What the extra `site` of an installation brings."""
_SANDBOXED = (
    "Sandboxed: a case has no network, cannot see your home, reads the system only, and has"
    " folders, processes and shared memory of its own."
)
_OPEN = "Not sandboxed: a case can use your network and all your files and processes"

_HELP = {each.name: each.says for each in COMMANDS}

app = typer.Typer(
    name="runner", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


@app.callback(help="Measure reported dtype bugs on every release of transformers.")
def program() -> None:
    """Make this a group: typer takes an application of one command for that command."""


def checked(text: str, *choices: str, metavar: str | None = None, panel: str | None = None) -> Any:  # noqa: ANN401 - as typer has it
    """Return an option, with `text` as its help, of these values, or of any that is not empty.

    An empty one is refused: a shell variable that is not set would widen a run to all that the
    option was to leave out.
    """

    def check(ctx: typer.Context, param: typer.CallbackParam, value: str) -> str:
        name = param.name or ""
        source = ctx.get_parameter_source(name)
        is_typed = source is not None and source.name == "COMMANDLINE"
        if is_typed and (value not in choices if choices else not value):
            expected = one_of(choices) if choices else str(metavar)
            fix = "" if value else "Leave the option out to run without it."
            raise refuse(InvalidValue(f"--{name}", value, expected, fix))
        return value

    return typer.Option(metavar=metavar, callback=check, help=text, rich_help_panel=panel)


_selecting = functools.partial(typer.Option, rich_help_panel=SELECTION)
Cases = Annotated[
    Sequence[str], _selecting(help="A case by name or glob, or the path of your own case file.")
]
Areas = Annotated[Sequence[str], _selecting(help="Only cases of this area.")]
Models = Annotated[Sequence[str], _selecting(help="Only cases of this model, by name or glob.")]
Releases = Annotated[
    Sequence[str],
    _selecting(help='A release, a comma-separated list, or a specifier: ">=4.50,<4.52".'),
]
Precisions = Annotated[Sequence[str], _selecting(help="Only this precision: fp32, bf16 or fp16.")]
Workarounds = Annotated[
    Sequence[str],
    _selecting(help="Only with this workaround; `none` selects the case without any."),
]
Triggers = Annotated[
    Sequence[str],
    _selecting(help="Only cases that this leads to: load, trainer, generate and others."),
]
AtFault = Annotated[
    Sequence[str],
    _selecting(metavar="PACKAGE", help="Only bugs in which this package is at fault."),
]
Features = Annotated[
    Sequence[str],
    "What you use: fsdp2, float8, dora, compile, trainer and others; bugs that need it come first.",
]
All = Annotated[bool, "List every known bug, also those that need what you did not name."]
OneCase = Annotated[str, typer.Argument(metavar=CASE, help="The case by name, or your own script.")]
OneWorkaround = Annotated[str, "Run the case with this workaround."]
Sandbox = Annotated[
    bool | None,
    typer.Option(
        help="Run cases in a bubblewrap sandbox (default in CI where available).",
        show_default=False,
    ),
]
OnRay = Annotated[
    str,
    checked(
        "Run on a Ray cluster: HOST:PORT, `auto`, or `local` for this machine alone.",
        metavar="ADDRESS",
    ),
]
OnDevice = Annotated[Device, "The device to compute on."]
Rerun = Annotated[bool, "Re-run cells that already have results."]
AnyFailure = Annotated[bool, "Count any failure, not only the one that the case describes."]
Format = Annotated[
    str,
    checked("Output format: text, markdown (to paste) or json.", "text", "markdown", "json"),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class CellOptions(SelectionRequest):
    """The options that select cells, for commands that have no other option for it."""

    case: Cases = ()
    area: Areas = ()
    release: Releases = ()
    precision: Precisions = ()
    workaround: Workarounds = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionOptions(SelectionRequest):
    """The options of commands that answer a question about packages from evidence."""

    case: Cases = ()
    area: Areas = ()
    model: Models = ()
    precision: Precisions = ()
    device: OnDevice = Device.CPU
    format: Format = "text"


def stderr_console() -> Console:
    """Return the console for people; standard output is for programs."""
    from rich.console import Console  # noqa: PLC0415 - commands that print nothing do without

    # What is printed may be a message of others: nothing in it is markup.
    return Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)


_GIVEN: dict[str, Callable[[], Any]] = {"paths": Paths, "console": stderr_console}
"""What commands get beside their options."""


def command(name: str, *, collect: bool = True) -> Callable[[_Command], _Command]:
    """Register a command of the table, which has its help.

    Its options are its annotated arguments, or the annotated fields of the dataclass `options`;
    what has no typer annotation keeps its default. `paths` and `console` are given to it as well.
    `collect` says whether it makes garbage that is worth looking for.
    """

    def register(function: _Command) -> _Command:
        given = [key for key in inspect.signature(function).parameters if key in _GIVEN]
        record = typing.get_type_hints(function).get("options")

        def call(**values: Any) -> NoReturn:  # noqa: ANN401 - whatever the options are
            if collect:  # nothing was worth looking for while modules were imported
                gc.enable()
            arguments = {"options": record(**values)} if record else values
            code = function(**{key: _GIVEN[key]() for key in given}, **arguments)
            gc.freeze()  # the collection at the end of the process would cost time and free nothing
            raise typer.Exit(code)

        call.__signature__ = inspect.Signature(_parameters(record or function))  # type: ignore[attr-defined]
        call.__module__ = function.__module__
        app.command(name, help=_HELP[name])(call)
        return function

    return register


def _parameters(source: Callable[..., Any]) -> list[inspect.Parameter]:
    hints = typing.get_type_hints(source, include_extras=True)
    return [
        parameter.replace(
            kind=inspect.Parameter.KEYWORD_ONLY, annotation=_annotation(name, hints[name])
        )
        for name, parameter in inspect.signature(source).parameters.items()
        if hasattr(hints[name], "__metadata__")
    ]


def _annotation(name: str, hint: Any) -> Any:  # noqa: ANN401 - a form of typing
    """Return an option's annotation for typer, which knows lists and no other sequences.

    A text in it is the help; the flag that it describes has no opposite then.
    """
    plain, setting = typing.get_args(hint)
    if isinstance(setting, str):
        names = [f"--{name.replace('_', '-')}"] if plain is bool else []
        setting = typer.Option(*names, help=setting)
    if typing.get_origin(plain) is Sequence:
        plain = list[typing.get_args(plain)[0]]  # type: ignore[misc]
    return Annotated[plain, setting]


def line_printer(console: Console, style: str) -> Callable[[str], None]:
    """Return a function that prints a line in a style, such as `yellow` for warnings."""
    return lambda line: console.print(line, style=style)


def warn(line: str) -> None:
    """Print a warning of a command that mostly prints none: only then it waits for rich."""
    stderr_console().print(line, style="yellow")


def demand_site(where: str) -> None:
    """Raise RunnerError where an installation does not have the packages that make pages."""
    missing = [name for name in _SITE if importlib.util.find_spec(name) is None]
    if missing:
        fix = "Install them: `pip install 'repromatrix[site]'`."
        raise refuse(Problem(where, f"it needs {join(missing)}", fix))


def print_stdout(text: str) -> None:
    """Print a result; a reader that closes the pipe early is no error, as typer would make it."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def refuse_pairs(pairs: Iterable[tuple[str, object, str, object, str]]) -> None:
    """Raise RunnerError for the first two options that exclude each other and are both given.

    Each pair is an option and what it was given, another and what that was given, and why.
    """
    for option, first, other, second, why in pairs:
        if first and second:
            raise refuse(Conflict(option, other, why))


def own_files(paths: Paths, cases: Sequence[str], option: str) -> tuple[Paths, list[Path] | None]:
    """Return the case files outside `cases/` that were given, and the paths of a store for them.

    None stands for cases by name. Nothing of such a file is kept under the corpus's name.
    Raises RunnerError where files and names are mixed, or where a file is a case of the corpus.
    """
    files = [text for text in cases if text.endswith(".py") or "/" in text]
    if not files:
        return paths, None
    if names := [text for text in cases if text not in files]:
        what = f"{files[0]!r} is a file and {names[0]!r} is the name of a case"
        raise refuse(Problem(option, what, "Give either files or names."))
    for path in map(Path, files):
        if path.resolve().is_relative_to(paths.cases):
            what, fix = f"{str(path)!r} is a case of the corpus", f"Give its name: {path.stem}."
            raise refuse(Problem(option, what, fix))
    return dataclasses.replace(paths, own=True), [*map(Path, files)]


def load_scripts(paths: Paths, cases: Sequence[str], derived: Sequence[str] = ()) -> Project:
    """Load the corpus, or scripts of the user's, which need no block; raises RunnerError.

    `derived` are the pairs and extended releases that were named, and no case may have asked for.
    """
    paths, files = own_files(paths, cases, CASE)
    if files is None:
        return project.load(paths, also=derived)
    scripts = [load_script(path, str(path)) for path in files]
    loaded = project.load(paths, [], derived)
    read = {case.name: case for script in scripts for case in by_variant(script)}
    return dataclasses.replace(loaded, cases=read)


def only_case(loaded: Project, typed: str) -> Case:
    """Return the one case that is meant by a name or a script; raises RunnerError."""
    if loaded.paths.own:
        return next(iter(loaded.cases.values()))
    match named_cases([typed], list(loaded.cases), CASE):
        case []:
            raise nothing_selected({CASE: [typed]})
        case [name, *others] if {stem_of(name)} == {*map(stem_of, (name, *others))}:
            return loaded.cases[name]  # of several variants the first: they are one script
        case names:
            what = f"{typed!r} matches {plural(len(names), 'case')}"
            raise refuse(Problem(CASE, what, "Name one of them."))


def decide_sandbox(asked: bool | None, tell: Callable[[str], None]) -> bool:  # noqa: FBT001 - an option that may be left out
    """Return whether cells run in a sandbox, and tell what is isolated and what is not limited.

    Without the option they do in CI, if this machine can. Raises RunnerError where the option is
    given and this machine cannot.
    """
    # Commands that run no case do without.
    from repromatrix.runner.execution import cgroup, sandbox  # noqa: PLC0415
    from repromatrix.runner.worker.process_control import unenforceable  # noqa: PLC0415

    in_ci = os.environ.get("CI", "").lower() in {"1", "true"}
    wanted = in_ci if asked is None else asked
    why = sandbox.trouble() if wanted else "use --sandbox to isolate it"
    sandboxed = wanted and not why
    if asked and why:
        fix = "Use --no-sandbox, or install bubblewrap (apt-get install bubblewrap)."
        raise refuse(Problem("--sandbox", why, fix))
    tell(_SANDBOXED if sandboxed else f"{_OPEN} ({why}).")
    unlimited = [*unenforceable()]
    # The limit of a user namespace holds for everybody but root.
    if not cgroup.can_count() and not (sandboxed and os.getuid() != 0):
        unlimited.append("the number of processes that a cell starts between two checks")
    for what in unlimited:
        tell(f"Not limited on this machine: {what}.")
    return sandboxed


def portable(typed: Sequence[str]) -> tuple[str, ...]:
    """Return a command to paste: clones and scripts of whoever reads it are somewhere else."""
    words = list(typed)
    for number, word in enumerate(words):
        path = PurePath(word)
        option, sign, repo = word.partition("=") if word.startswith("--repo=") else ("", "", word)
        if sign or (number and words[number - 1] == "--repo"):
            # The name of its folder, also where it was given as a dot.
            words[number] = f"{option}{sign}{Path(repo).expanduser().resolve().name}"
        elif path.suffix == ".py" and len(path.parts) > 1:
            words[number] = f"path/to/{path.name}"
    return tuple(words)
