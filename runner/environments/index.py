"""The versions that the package index has, asked through pip, which knows the user's index."""

from __future__ import annotations

import json
import sys

from packaging.version import Version

from repromatrix.runner import subprocesses
from repromatrix.runner.errors import ExitCode, OldFault, refuse

FIRST = Version("4.49.0")


def released() -> list[str]:
    """Return every final, not yanked release from 4.49.0 on, oldest first; raises RunnerError."""
    return [text for text in published("transformers") if Version(text) >= FIRST]


def published(package: str) -> list[str]:
    """Return every final, not yanked version of a package, oldest first; raises RunnerError."""
    done = subprocesses.finish(
        [sys.executable, "-m", "pip", "index", "versions", package, "--json"], seconds=120
    )
    if done.code != 0:
        reason = subprocesses.anonymous(" ".join(done.err.split()))[-300:]
        fault = OldFault(where="the package index", found=reason, allowed="an index that answers")
        raise refuse(fault, ExitCode.UNBUILDABLE)
    versions = [Version(text) for text in json.loads(done.out)["versions"]]
    final = [version for version in versions if not version.is_prerelease]
    return [str(version) for version in sorted(final)]
