"""What `audit` and `advise` add of the sweep, where models are asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from repromatrix.runner.audit.render_ci import workflow_command
from repromatrix.runner.document import Document
from repromatrix.runner.errors import ExitCode

if TYPE_CHECKING:
    from repromatrix.runner.audit.swept import SweptAnswer


def added(answer: Document, found: Sequence[SweptAnswer]) -> Document:
    """Return an answer with what the sweep found."""
    if not found:
        return answer
    from repromatrix.runner.audit import swept  # noqa: PLC0415 - most ask without models

    parts, data = [*answer.parts, swept.listing(found)], swept.as_data(found)
    return dataclasses.replace(answer, parts=parts, data={**answer.data, "swept": data})


def annotation(found: Sequence[SweptAnswer]) -> str:
    """Return what the sweep found as an annotation of a workflow."""
    if not found:
        return ""
    from repromatrix.runner.audit.swept import lines  # noqa: PLC0415 - most ask without models

    first, *rest = lines(found)
    text = "\n".join(line.removeprefix("  ") for line in rest)
    level = "warning" if any(one.bad for one in found) else "notice"
    return f"{workflow_command(level, text, first)}\n"


def code_of(found: Sequence[SweptAnswer]) -> ExitCode:
    """Return the exit code where no case is about the models."""
    if any(one.bad for one in found):
        return ExitCode.UNEXPECTED
    return ExitCode.AS_EXPECTED if any(one.is_known for one in found) else ExitCode.UNDECIDED
