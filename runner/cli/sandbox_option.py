"""`--sandbox`: whether cells are walled in, decided and told before the first one is run."""

from __future__ import annotations

import os
from collections.abc import Callable

from repromatrix.runner.errors import OldFault, refuse
from repromatrix.runner.execution import cgroup, sandbox
from repromatrix.runner.worker.process_control import unenforceable

_WALLED = (
    "Sandboxed: a case has no network, no home and a read-only system; folders, processes and"
    " shared memory are its own."
)
_OPEN = "Not sandboxed: a case has your network and your rights, on every file and process of yours"


def walled(asked: bool | None, say: Callable[[str], None]) -> bool:  # noqa: FBT001 - an option that may be left out
    """Return whether cells are walled in, and say what holds and what does not.

    Where nobody asked they are in CI, if this machine can do it. Raises RunnerError where they
    were asked to be and cannot.
    """
    wanted = _is_ci() if asked is None else asked
    why = sandbox.trouble() if wanted else "--sandbox walls it in"
    holds = wanted and not why
    if asked and why:
        remedy = "Install it (apt-get install bubblewrap) where it is missing, or say --no-sandbox."
        allowed = "a machine that lets bubblewrap make namespaces"
        raise refuse(OldFault(where="--sandbox", found=why, allowed=allowed, fix=remedy))
    say(_WALLED if holds else f"{_OPEN} ({why}).")
    for missing in (*unenforceable(), *_uncounted(walls=holds)):
        say(f"Cannot be bounded on this machine: {missing}.")
    return holds


def _uncounted(*, walls: bool) -> list[str]:
    # The limit of a user namespace holds for everybody but root.
    if cgroup.can_count() or (walls and os.getuid() != 0):
        return []
    return ["how many processes a cell starts between two looks at it"]


def _is_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"1", "true"}
