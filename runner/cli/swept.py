"""What `audit` and `advise` add of the sweep, where models are asked for."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import cached_property

from repromatrix.runner.audit.render_ci import workflow_command
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.markdown import plain
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.paths import Paths
from repromatrix.runner.sweep import answers
from repromatrix.runner.sweep.answers import SweptAnswer
from repromatrix.runner.sweep.history import SweepHistory
from repromatrix.runner.sweep.published import read_history
from repromatrix.runner.text import printable_lines


class SweptModels:
    """The architectures that were swept, for models that are asked for."""

    def __init__(self, paths: Paths) -> None:
        """Read nothing yet: without models the sweep is not asked."""
        self._paths = paths

    @cached_property
    def _history(self) -> SweepHistory:
        return read_history(self._paths.published)

    def is_known(self, model: str) -> bool:
        """Say whether a name or glob means an architecture that was swept."""
        return bool(answers.named(self._history, [model]))

    def answers(
        self, models: Sequence[str], version: str, precisions: Collection[Precision]
    ) -> tuple[SweptAnswer, ...]:
        """Return what is known of models at a version of transformers."""
        if not models:
            return ()
        kinds = answers.named(self._history, models)
        return answers.swept(self._history, kinds, version, precisions)


def added(answer: str, found: Sequence[SweptAnswer], form: str) -> str:
    """Return an answer with what the sweep found."""
    if not found:
        return answer
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
