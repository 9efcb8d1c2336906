"""`advise`: the newest release on which all selected cases pass."""

from __future__ import annotations

from repromatrix.runner.audit import asking
from repromatrix.runner.audit.advice import advise as find
from repromatrix.runner.audit.render_advice import document
from repromatrix.runner.audit.swept_models import SweptModels
from repromatrix.runner.cli.audit import with_swept
from repromatrix.runner.cli.options import (
    QuestionOptions,
    command,
    print_stdout,
    warn,
)
from repromatrix.runner.document import write
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.paths import Paths


@command("advise", collect=False)
def advise_release(paths: Paths, options: QuestionOptions) -> ExitCode:
    """Print the newest release on which all selected cases pass, with a version specifier.

    Of models that were asked for it adds what the sweep found on that release.
    """
    swept_models = SweptModels(paths)
    loaded, question, models, terms = asking.asked(paths, options)
    advice = find(asking.known_of(loaded, question, warn), question)
    newest = advice.newest.release if advice.newest else loaded.matrix.releases[-1].name
    found = swept_models.answers(models, newest, question.precisions)
    print_stdout(write(with_swept(document(advice, terms), found), options.format))
    return advice.code
