"""`audit`: which known bugs a lock, a list or an interpreter has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.answering.audit import audit
from runner.commands import asking
from runner.commands.formats import check_format
from runner.errors import ExitCode
from runner.installed.reading import read
from runner.telling import audit as telling
from runner.telling.audit_object import as_json
from runner.terminal.speaking import say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from runner.answering.audit import Audit
    from runner.places import Places
    from runner.planning.selection import Wish


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The options of `audit` as they were typed."""

    path: str
    wish: Wish
    ignore: Sequence[str]
    format: str
    verbose: bool = False


def audit_packages(places: Places, options: Options, told: Callable[[], Console]) -> ExitCode:
    """Print which known bugs somebody's packages have; return 1 where one hits."""
    check_format(options.format)
    installed = read(options.path)
    loaded, question = asking.asked(places, options.wish, options.ignore)
    wanted = asking.around(installed, loaded, question)
    found = audit(installed, asking.known_of(loaded, question, told, wanted), question)
    say(_told(found, options))
    if not found.hits and found.unknown and not found.clear:
        return ExitCode.UNDECIDED  # nothing was examined: no green for whoever only asks the code
    return ExitCode.UNEXPECTED if found.hits else ExitCode.AS_EXPECTED


def _told(found: Audit, options: Options) -> str:
    match options.format:
        case "markdown":
            return telling.markdown(found)
        case "json":
            return as_json(found)
        case _:
            return telling.text(found, verbose=options.verbose)
