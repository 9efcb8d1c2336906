"""`advise`: the newest release on which all selected cases pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from repromatrix.runner.audit import questions
from repromatrix.runner.audit import render_advice as render
from repromatrix.runner.audit.advice import advise as find
from repromatrix.runner.cli.options import QuestionOptions, command, print_stdout, stderr_console
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from rich.console import Console


@command("advise", collect=False)
def advise_release(
    paths: Paths, options: QuestionOptions, console: Callable[[], Console] = stderr_console
) -> ExitCode:
    """Print the newest release on which all selected cases pass, with a version specifier.

    `console` is called only where there is something to warn of: rich takes time to import.
    """
    loaded, question = questions.asked(paths, options)
    advice = find(questions.known_of(loaded, question, console), question)
    forms = {"text": render.text, "markdown": render.markdown, "json": render.as_json}
    print_stdout(forms[options.format](advice))
    return advice.code
