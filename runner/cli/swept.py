"""What `audit` and `advise` add of the sweep, where models are asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from repromatrix.runner.audit.render_ci import workflow_command
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.markdown import plain
from repromatrix.runner.text import printable_lines

if TYPE_CHECKING:
    from repromatrix.runner.audit.swept import SweptAnswer


def added(answer: str, found: Sequence[SweptAnswer], form: str) -> str:
    """Return an answer with what the sweep found."""
    if not found:
        return answer
    from repromatrix.runner.audit import swept as answers  # noqa: PLC0415 - most ask without models

    if form == "json":
        whole = {**json.loads(answer), "swept": answers.as_data(found)}
        return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    first, *rest = answers.lines(found)
    if form == "sarif":  # its results are cases
        return answer
    if form == "github":
        text = printable_lines("\n".join(line.removeprefix("  ") for line in rest))
        level = "warning" if any(one.bad for one in found) else "notice"
        return f"{answer}{workflow_command(level, text, first)}\n"
    if form == "markdown":
        listed = "\n".join(
            f"{' ' * (len(line) - len(line.lstrip()) - 2)}- {plain(line.strip())}" for line in rest
        )
        return f"{answer}\n{plain(first)}\n\n{listed}\n"
    return f"{answer}\n" + printable_lines("\n".join([first, *rest]) + "\n")


def code_of(found: Sequence[SweptAnswer]) -> ExitCode:
    """Return the exit code where no case is about the models."""
    if any(one.bad for one in found):
        return ExitCode.UNEXPECTED
    return ExitCode.AS_EXPECTED if any(one.is_known for one in found) else ExitCode.UNDECIDED
