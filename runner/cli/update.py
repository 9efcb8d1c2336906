"""`update`: newer evidence for an installation, from a site or a file."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated

import typer

from repromatrix.runner import project
from repromatrix.runner.cli.options import Offline, command, print_stdout
from repromatrix.runner.compare.snapshots import read_changes
from repromatrix.runner.errors import Conflict, ExitCode, InvalidValue, Problem, RunnerError, refuse
from repromatrix.runner.evidence import answers, archive, download, updates
from repromatrix.runner.evidence.commits import known_commits
from repromatrix.runner.evidence.swept.published import read_findings, read_history
from repromatrix.runner.paths import Paths

_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")


@command("update")
def update_evidence(
    address: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS",
            help=f"The address of a site, which ends in `/`, or of its {archive.NAME}; or a file.",
        ),
    ],
    sha256: Annotated[
        str, typer.Option(metavar="DIGEST", help="Refuse an archive with another SHA-256.")
    ] = "",
    offline: Offline = False,  # noqa: FBT002 - an option
) -> ExitCode:
    """Take newer published evidence, with its cases and pins, into an installation.

    Raises RunnerError for an archive that is refused; what was there before stays.
    """
    if not (installed := Paths()).is_installed:
        what = "a checkout has its evidence from git"
        raise refuse(Problem("update", what, "Run `git pull`."))
    if sha256 and not _SHA256.fullmatch(sha256):
        raise refuse(InvalidValue("--sha256", sha256, "64 hexadecimal digits"))
    address += archive.NAME * address.endswith("/")
    where = download.shown(address)
    if offline and download.is_remote(address):
        raise refuse(Conflict("--offline", where, "it is an address", "Give a file."))
    content = download.fetch(address, archive.LIMIT)
    digest = hashlib.sha256(content).hexdigest()
    if sha256 and digest != sha256.lower():
        raise refuse(Problem(where, f"its SHA-256 is {digest}", "Nothing was changed."))
    snapshot, is_new = updates.take(_current(installed), content, where, _read)
    print_stdout(f"{'Updated' if is_new else 'Up to date'}: {snapshot}.\n")
    return ExitCode.AS_EXPECTED


def _current(installed: Paths) -> Paths:
    """Return where answers come from now; what was taken and is damaged since is replaced."""
    try:
        return updates.current(installed)
    except RunnerError:
        return installed


def _read(paths: Paths) -> None:
    """Read all that answers are made of; raises RunnerError."""
    project.load(paths)
    answers.published_rows(paths)
    answers.under_torches(paths)
    known_commits(paths)
    read_changes(paths.published)
    read_history(paths.published)
    read_findings(paths.published)
