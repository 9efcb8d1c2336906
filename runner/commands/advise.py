"""`advise`: the newest release on which all chosen cases pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.answering.advise import advise
from runner.commands import asking
from runner.commands.formats import check_format
from runner.telling import advise as telling
from runner.terminal.speaking import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from runner.answering.advise import Advice
    from runner.errors import ExitCode
    from runner.places import Places
    from runner.planning.selection import Wish


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The options of `advise` as they were typed."""

    wish: Wish
    format: str


def advise_release(places: Places, options: Options, told: Callable[[], Console]) -> ExitCode:
    """Print the newest release on which everything passes; return what it tells a script."""
    check_format(options.format)
    loaded, question = asking.asked(places, options.wish)
    wanted = asking.plain(question)
    found = advise(asking.known_of(loaded, question, told, wanted), question)
    say(_told(found, options.format))
    return found.code


def _told(found: Advice, form: str) -> str:
    match form:
        case "markdown":
            return telling.markdown(found)
        case "json":
            return telling.as_json(found)
        case _:
            return telling.text(found)
