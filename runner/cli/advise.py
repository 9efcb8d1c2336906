"""`advise`: the release with the fewest known bugs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from repromatrix.runner.audit import asking
from repromatrix.runner.audit.advice import advise as find
from repromatrix.runner.audit.inputs import read
from repromatrix.runner.audit.lines import file_of
from repromatrix.runner.audit.render_advice import document
from repromatrix.runner.audit.swept_models import swept_models
from repromatrix.runner.cli.audit import with_swept
from repromatrix.runner.cli.options import (
    Features,
    QuestionOptions,
    Triggers,
    command,
    print_stdout,
    warn,
)
from repromatrix.runner.document import write
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.paths import Paths


@dataclass(frozen=True, kw_only=True, slots=True)
class AdviseOptions(QuestionOptions):
    """The options of `advise`."""

    trigger: Triggers = ()
    feature: Features = ()
    have: Annotated[
        str,
        typer.Option(
            "--have",
            "--against",
            metavar="PATH",
            help="What you have, as `audit` reads it: only what is in it counts, a release near it"
            " is named, and what the move breaks and mends.",
        ),
    ] = ""


@command("advise", collect=False)
def advise_release(paths: Paths, options: AdviseOptions) -> ExitCode:
    """Print the release with the fewest known bugs, which these are, and a version specifier.

    Of models that were asked for it adds what the sweep found on that release.
    """
    installed = read(options.have) if options.have else None
    beside = file_of(installed) if installed else None
    loaded, question, models, terms = asking.asked(paths, options, beside=beside)
    known = asking.known_of(loaded, question, warn, installed, workarounds=True)
    advice = find(known, question, installed)
    release = advice.named.release if advice.named else loaded.matrix.releases[-1].name
    found = swept_models(paths, models, release, question.precisions)
    print_stdout(write(with_swept(document(advice, terms), found), options.format))
    return advice.code
