"""`main`: the development version, resolved to a commit that is recorded with every cell."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner import processes
from runner.environments import torch_build
from runner.environments.building import Built, Recipe, UnbuildableError, build
from runner.environments.pinning import compile_lock
from runner.environments.shelf import markers
from runner.environments.sources import standing
from runner.errors import RunnerError
from runner.model.cell import Environment, Source
from runner.model.lock import read_lock
from runner.model.matrix import MAIN
from runner.model.naming import taken_apart

if TYPE_CHECKING:
    from runner.model.matrix import Matrix
    from runner.places import Places

VARIABLE = "REPROMATRIX_MAIN"
_SECONDS = 10
# A user name before the host may hold an @ too; the revision's stands in the path.
_GIT = re.compile(r"(?:transformers\s*@\s*)?git\+(?P<url>[a-z+]+://[^/]*/[^@]*)(?:@(?P<rev>.+))?$")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where the development version comes from: a requirement, and its commit if it has one."""

    requirement: str
    commit: str


def origin(matrix: Matrix) -> Origin:
    """Resolve REPROMATRIX_MAIN, or the matrix's requirement, to something that cannot move.

    Raises UnbuildableError within seconds when it cannot be reached.
    """
    wanted = os.environ.get(VARIABLE) or matrix.main.requirement
    folder = Path(wanted).expanduser()
    if folder.is_dir():
        return _folder(folder.resolve())
    found = _GIT.match(wanted) or _GIT.match(f"git+{wanted}" if "://" in wanted else "")
    if found:
        return _repository(found["url"], found["rev"] or "HEAD")
    return Origin(requirement=wanted, commit="")


def _repository(url: str, revision: str) -> Origin:
    commit = revision if _COMMIT.fullmatch(revision) else _ask(url, revision)
    return Origin(requirement=f"transformers @ git+{url}@{commit}", commit=commit)


def _ask(url: str, revision: str) -> str:
    environ = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    command = ["git", "ls-remote", url, revision, f"{revision}^{{}}"]
    done = processes.finish(command, environ=environ, seconds=_SECONDS)
    commit = _named(done.out, revision)
    if done.code == 0 and commit:
        return commit
    reason = " ".join(done.err.split()) or f"it has no {revision}"
    raise UnbuildableError(f"the repository does not answer: {processes.anonymous(reason)}"[:300])


def _named(listing: str, revision: str) -> str:
    """Return the commit of a revision; asked for `main`, a repository lists every `x/main` too."""
    lines = [line.partition("\t") for line in listing.splitlines()]
    commits = {name: commit for commit, _, name in lines}
    meant = (
        revision,
        f"refs/heads/{revision}",
        f"refs/tags/{revision}^{{}}",
        f"refs/tags/{revision}",
    )
    return next((commits[name] for name in meant if name in commits), "")


def _folder(folder: Path) -> Origin:
    """Pin a folder by its commit, or by its content where it is changed or is no repository."""
    how = standing(folder, folder / "src", ignored=False)
    commit = how.identity if how.content else how.commit
    return Origin(requirement=f"transformers @ {folder.as_uri()}", commit=commit)


def build_main(places: Places, matrix: Matrix, name: str = MAIN) -> tuple[Environment, Built]:
    """Build `main`, or `main` with extras; companions are the newest release's where they fit.

    Raises UnbuildableError.
    """
    source = origin(matrix)
    lock = _lock(places, matrix, source, taken_apart(name).extras)
    here = markers(matrix.python)
    versions = read_lock(lock, name, name).versions(here)
    facts = (source.requirement, source.commit, lock, torch_build.chosen())
    digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()
    recipe = Recipe(
        name=name,
        digest=digest[:16],
        python=matrix.python,
        lock=lock,
        torch=matrix.torch.version,
        beside=(source.requirement,),
        versions={**versions, "torch": matrix.torch.version},
    )
    built = build(places, recipe)
    version = with_commit(built.versions["transformers"], source.commit)
    pins = {**versions, "torch": matrix.torch.version, "transformers": version}
    environment = Environment(
        name=name, source=Source.MAIN, python=matrix.python, pins=pins, markers=here
    )
    return environment, built


def with_commit(version: str, commit: str) -> str:
    """Return a version whose local part names the commit, `5.24.0.dev0+g0123456789ab`."""
    if not commit:
        return version
    # An edited folder is told by its content too: it is another version with each edit.
    told = commit[:12] if _COMMIT.fullmatch(commit) else commit
    return f"{version}{'.' if '+' in version else '+'}g{told}"


def _lock(places: Places, matrix: Matrix, source: Origin, extras: tuple[str, ...]) -> str:
    newest = matrix.releases[-1].name
    pinned = read_lock((places.locks / f"{newest}.txt").read_text(), newest, newest)
    # Only what it installs here: a pin for another platform is no wish of ours.
    versions = pinned.versions(markers(matrix.python))
    preferred = "".join(f"{name}=={version}\n" for name, version in versions.items())
    wanted = [source.requirement, *matrix.companions, *extras]
    try:
        text = compile_lock(matrix, wanted, until=None, where=MAIN, preferred=preferred)
    except RunnerError as error:
        raise UnbuildableError(error.faults[0].found) from error
    # transformers itself is installed from its source, not from an index.
    return re.sub(r"(?m)^transformers(?: @|==).*(?:\\\n.*)*\n", "", text)
