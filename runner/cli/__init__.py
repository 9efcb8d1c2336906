"""The command line: arguments to calls, errors to exit codes."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import signal
import sys
import traceback
from typing import NoReturn

from repromatrix.commands import COMMANDS
from repromatrix.runner.cli.options import app
from repromatrix.runner.errors import ExitCode, Interrupted, Problem, RunnerError, refuse
from repromatrix.runner.files import unwritable
from repromatrix.runner.paths import INSTALLED
from repromatrix.runner.signals import answering, forget
from repromatrix.runner.text import printable_lines
from repromatrix.runner.worker import process_control

PROGRAM = "repromatrix" if INSTALLED else "python -m repromatrix"
"""The name in the help, whether nox, a test or a script started the program."""
_REMOVED = {
    ("update", ""): (
        "Newer evidence comes with a newer version: `uvx --refresh`, `pip install -U`, or"
        " `git pull` in a checkout."
    ),
    ("matrix", "--plan"): "Use --dry-run to print what would run.",
    ("matrix", "--strategy"): "Use --all: it runs the cells that are due, and infers nothing.",
    ("matrix", "--trust-published"): (
        "`matrix` alone confirms published results; --all measures what is due."
    ),
    ("bisect", "--plan"): "Use --evidence-only.",
}
"""What replaced a command, or an option of one."""


def register(typed: str) -> None:
    """Register a command, or all where there is none of that name.

    Raises RunnerError for one that an installation does not offer.
    """
    names = [command.name for command in COMMANDS]
    offered = [each.name for each in COMMANDS if not INSTALLED or each.is_installed]
    if typed in names and typed not in offered:
        what = "the command needs a checkout of repromatrix"
        raise refuse(Problem(typed, what, f"Clone the repository and run `nox -s {typed}` in it."))
    wanted = [typed] if typed in offered else offered
    for command in COMMANDS:
        if command.name in wanted:
            importlib.import_module(command.module)
    # A module that another one imports registers its command first.
    app.registered_commands.sort(key=lambda command: names.index(command.name or ""))


def program() -> None:
    """Run the program in UTF-8, in which paths, workers and installers speak whatever the locale.

    Where the locale has other letters the interpreter begins anew, as the same process.
    """
    if sys.getfilesystemencoding() != "utf-8":
        # What we start is to read paths as we do; installers ask a Python that hears only the one.
        os.environ |= {"PYTHONUTF8": "1", "LC_ALL": "C.UTF-8"}
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606
    main()


def main() -> None:
    """Run the program and end the process with its exit code.

    Whoever called it answers signals again behind its last line, where nothing is left to be ended:
    an exception that is raised while Python ends is only printed.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        try:
            _run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            forget()
    except Interrupted:  # behind the last line of a command
        _leave(int(ExitCode.INTERRUPTED))
    except SystemExit as end:
        _leave(end.code)


def _leave(code: str | int | None) -> NoReturn:
    """End: beside Ray here and now, as an ordinary end frees what its own threads may still use."""
    if "ray" not in sys.modules:
        sys.exit(code)
    from repromatrix.runner.execution.ray import connect  # noqa: PLC0415

    try:
        if not connect.is_stuck():
            # Other libraries' last acts; Ray's own leaves a cluster that we have left before.
            atexit._run_exitfuncs()  # noqa: SLF001 - nothing else runs them without an end
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):  # nobody reads it any more
                stream.flush()
    finally:
        os._exit(int(code or 0))


def _run() -> None:
    try:
        with answering(signal.SIGINT, signal.SIGTERM):
            _end_with_door()
            _refuse_removed(sys.argv[1:])
            register(sys.argv[1] if len(sys.argv) > 1 else "")
            app(prog_name=PROGRAM)
    except RunnerError as error:
        _end(error.code, *map(str, error.faults))
    except Interrupted:
        _end(ExitCode.INTERRUPTED, "Interrupted.")
    except Exception as error:  # noqa: BLE001 - whatever is left is a bug of ours
        disk = unwritable(getattr(error, "filename", None) or "the disk", error)
        if disk is None:
            _end(ExitCode.OUR_FAULT, traceback.format_exc())
        _end(disk.code, *map(str, disk.faults))


def _refuse_removed(arguments: list[str]) -> None:
    """Raise RunnerError for a command or an option that was removed, and name what replaced it."""
    if fix := _REMOVED.get((arguments[0] if arguments else "", ""), ""):
        raise refuse(Problem(arguments[0], "the command was removed", fix))
    for word in arguments[1:]:
        option = word.partition("=")[0]
        if fix := _REMOVED.get((arguments[0], option), ""):
            raise refuse(Problem(option, "the option was removed", fix))


def _end(code: ExitCode, *lines: str) -> NoReturn:
    for line in lines:
        # What is quoted may hold escape sequences, which a terminal would obey.
        text = printable_lines(line.expandtabs())
        print(text, file=sys.stderr)  # noqa: T201 - whole lines, whatever the terminal's width
    sys.exit(int(code))


def _end_with_door() -> None:
    """Be interrupted when the nox that started us is killed."""
    door = os.environ.pop("REPROMATRIX_DOOR", "")
    if door.isdigit():
        if os.getppid() == int(door):
            process_control.signal_at_end_of_parent(signal.SIGTERM)
        if process_control.has_ended(int(door)):  # before we could ask
            raise Interrupted
