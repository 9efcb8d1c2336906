"""An option whose value may be left out: `--plan`, and `--plan boundaries`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from typer.core import TyperCommand

if TYPE_CHECKING:
    from typing import Any


def optional(option: str, stands_for: str) -> type[TyperCommand]:
    """Return a command in which an option without a value has the one that it stands for.

    typer knows flags and options with a value, and no option that is both.
    """

    class Command(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own
            return super().parse_args(ctx, filled(args, option, stands_for))

    return Command


def filled(arguments: list[str], option: str, value: str) -> list[str]:
    """Give an option its value where the next argument is another option, or none is left.

    >>> filled(["--plan", "--rerun"], "--plan", "show")
    ['--plan=show', '--rerun']
    """
    behind = itertools.zip_longest(arguments, arguments[1:], fillvalue="--")
    return [
        f"{word}={value}" if word == option and following.startswith("-") else word
        for word, following in behind
    ]
