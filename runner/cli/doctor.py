"""`doctor`: the known bugs of the environment that runs it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from repromatrix.runner.audit import asking
from repromatrix.runner.audit.hits import audit as find
from repromatrix.runner.audit.inputs import running
from repromatrix.runner.cli.audit import Verbose, exit_code, told
from repromatrix.runner.cli.options import (
    All,
    Features,
    QuestionOptions,
    command,
    print_stdout,
    warn,
)
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.paths import Paths


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorOptions(QuestionOptions):
    """The options of `doctor`."""

    feature: Features = ()
    all: All = False
    verbose: Verbose = False


@command("doctor", collect=False)
def diagnose_interpreter(paths: Paths, options: DoctorOptions) -> ExitCode:
    """List the known bugs of the interpreter that runs this, or of the active one.

    The active one is read where the one that runs this has no transformers. In a program,
    `repromatrix.doctor(model)` asks only what can hit its model.
    """
    installed = running(or_active=True)
    loaded, question, _, terms = asking.asked(paths, options)
    known = asking.known_of(loaded, question, warn, installed)
    report = find(installed, known, question)
    terms = dataclasses.replace(terms, everything=options.all)
    print_stdout(told(report, options.format, terms, verbose=options.verbose))
    return exit_code(report, fail_on=terms.fail_on)
