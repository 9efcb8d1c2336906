"""The table of commands: what each does, and where it is offered.

The program, the sessions of nox and the reference are made of it; it is imported without any
dependency of ours.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """A command, which its module registers as it is imported."""

    name: str
    says: str
    """What it does, in a sentence: its help."""
    is_installed: bool = False
    """Whether an installation offers it: that has no cases of its own, and publishes nothing."""
    groups: tuple[str, ...] = ("runner",)
    """The dependency group that it runs with, and the one beside `--ray`."""
    beside: str = ""
    """Its module where that is none of `runner/cli/`."""

    @property
    def module(self) -> str:
        """The module that registers it."""
        return self.beside or f"repromatrix.runner.cli.{self.name.replace('-', '_')}"


COMMANDS = (
    Command(
        "matrix",
        "Confirm published results on this machine for a quarter of an hour, or run selected"
        " cells.",
        groups=("runner", "ray"),
    ),
    Command(
        "sweep",
        "Run every architecture through the probes, and tell what changed since the release"
        " before.",
        groups=("runner", "ray"),
        beside="repromatrix.sweep.cli",
    ),
    Command(
        "run",
        "Run a case once on a release, in an environment that is kept, and print what it did.",
        is_installed=True,
    ),
    Command("report", "Render the site from local and published evidence.", is_installed=True),
    Command(
        "results",
        "Print cells with their outcome and verdict, as CSV or JSON.",
        is_installed=True,
    ),
    Command(
        "bisect",
        "Find the release that breaks or fixes a case, from evidence and as few runs as possible.",
    ),
    Command(
        "history",
        "Measure the cases along the main branch of a clone of transformers, coarse to fine.",
    ),
    Command(
        "blame",
        "Find the package whose version makes a case fail in one of two environments.",
    ),
    Command(
        "issues",
        "Write an issue for each unexpected result of `main`, with the commit if a clone is given.",
    ),
    Command(
        "diff",
        "Print what differs: two environments, a release and a checkout, or two sets of evidence.",
        is_installed=True,
    ),
    Command(
        "audit",
        "List the known bugs of a set of packages, and what avoids them.",
        is_installed=True,
    ),
    Command(
        "advise",
        "Print the release with the fewest known bugs for you, and a version specifier.",
        is_installed=True,
    ),
    Command(
        "doctor",
        "List the known bugs of the interpreter that runs this, or of the active one.",
        is_installed=True,
    ),
    Command(
        "check",
        "Check case files and environment files, without installing anything.",
    ),
    Command(
        "case",
        "Print a case as a script, its plain path, or an issue about it. Nothing is sent.",
        is_installed=True,
    ),
    Command("accept", "Rewrite what cases expect (`fails`) from evidence, and print the diff."),
    Command("new-case", "Create a case file from the address of a report, or from a script."),
    Command(
        "publish", "Write the results of all cells into the repository, for review and commit."
    ),
    Command("merge", "Merge results of shards and of other machines into the local store."),
    Command("shards", "Print the shards of a run as the matrix of a GitHub Actions job, in JSON."),
    Command(
        "bundle",
        "Make an archive that runs cases on a machine with its own torch and no network.",
        beside="repromatrix.tools.bundle.cli",
    ),
    Command("lock", "Write lock files, with packages as of seven days after each release."),
    Command("environment", "Build pinned virtualenvs, and print the paths of their interpreters."),
)
"""In the order of the help and of `nox -l`: what people type comes first."""
CHECKED = ("repromatrix.sweep.recipe_faults",)
"""The modules that say what is wrong with files of theirs, for `check`."""
