"""What no lock describes: `main`, a checkout as it stands, and a ready interpreter."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import datetime as dt
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name
from packaging.version import Version

from repromatrix.runner import subprocesses
from repromatrix.runner.environments import uv
from repromatrix.runner.environments.building import Built, Recipe, UnbuildableError, build
from repromatrix.runner.environments.commits import (
    Declaration,
    Home,
    UndeclaredError,
    read_requirements,
)
from repromatrix.runner.environments.locks import compile_lock, markers
from repromatrix.runner.errors import InvalidValue, Problem, RunnerError, refuse
from repromatrix.runner.git import list_remote, run_git, without_credentials
from repromatrix.runner.model.case import decode, parse_python
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.lock import read_lock
from repromatrix.runner.model.matrix import MAIN, Matrix
from repromatrix.runner.model.packages import MOVED
from repromatrix.runner.paths import Paths
from repromatrix.runner.text import join

_GIT_SECONDS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceState:
    """How a folder of sources stands; `content` is empty where it is as it was committed."""

    commit: str
    """Empty where it is in no repository."""
    branch: str
    """Empty where none is checked out."""
    content: str

    @property
    def identity(self) -> str:
        """The commit, and the content where that is another."""
        return f"{self.commit[:12]}dirty{self.content}" if self.content else self.commit[:12]


def standing(folder: Path, sources: Path, *, ignored: bool) -> SourceState:
    """Say how a folder stands; where it is edited, the files of `sources` tell it apart.

    `ignored` lets also what git ignores be an edit, as where all that lies there is imported.
    Compiled files never are.
    """
    commit = _ask_git(folder, "rev-parse", "HEAD")
    also = ("--ignored",) if ignored else ()
    asked = ("status", "--porcelain", "--untracked-files=all", *also, "--", ".")
    status = _ask_git(folder, *asked) if commit else None
    edits = [
        line
        for line in (status or "").splitlines()
        if not line.rstrip('"').endswith(("__pycache__/", ".pyc"))
    ]
    clean = status is not None and not edits and not _has_hidden(folder, sources)
    return SourceState(
        commit=(commit or "").strip(),
        branch=(_ask_git(folder, "symbolic-ref", "--short", "--quiet", "HEAD") or "").strip(),
        content="" if clean else content(sources),
    )


def content(folder: Path) -> str:
    """Return a digest of the files below a folder, but compiled ones, and of where they lie."""
    told = hashlib.sha256()
    for path in sorted(_files(folder)):
        source = Path(path).read_bytes()
        told.update(f"{os.path.relpath(path, folder)} {len(source)}\n".encode())
        told.update(source)
    return told.hexdigest()[:12]


def marks(folder: Path) -> frozenset[tuple[str, int, int]]:
    """Return place, size and time of the same files: a quick look whether one was edited."""
    found = ((path, os.stat(path)) for path in _files(folder))  # noqa: PTH116 - once per cell
    return frozenset((path, stat.st_size, stat.st_mtime_ns) for path, stat in found)


def _files(folder: Path) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        # What an installation leaves behind is no source either.
        folders[:] = [
            name
            for name in folders
            if name != "__pycache__" and not name.endswith((".egg-info", ".dist-info"))
        ]
        yield from (os.path.join(parent, name) for name in names if not name.endswith(".pyc"))  # noqa: PTH118


def _has_hidden(folder: Path, sources: Path) -> bool:
    """Say whether git was told not to look at a file: an edit of it shows in no status."""
    listed = _ask_git(folder, "ls-files", "-v", "--", os.path.relpath(sources, folder))
    return listed is None or any(
        line[0].islower() or line[0] == "S" for line in listed.split("\n") if line
    )


def _ask_git(folder: Path, *question: str) -> str | None:
    done = run_git(folder, question, seconds=_GIT_SECONDS)
    return done.out if done.code == 0 else None


VARIABLE = "REPROMATRIX_MAIN"
_SECONDS = 10
# A user name before the host may hold an @ too; the revision's stands in the path.
_GIT = re.compile(r"(?:transformers\s*@\s*)?git\+(?P<url>[a-z+]+://[^/]*/[^@]*)(?:@(?P<rev>.+))?$")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where the development version comes from: a requirement, and its commit if it has one."""

    requirement: str
    """Without the user and password that its address may have."""
    commit: str
    told: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables by which git is given these."""


def origin(matrix: Matrix) -> Origin:
    """Resolve REPROMATRIX_MAIN, or the matrix's requirement, to something that cannot move.

    Raises UnbuildableError within seconds when it cannot be reached.
    """
    wanted = os.environ.get(VARIABLE) or matrix.main.requirement
    folder = Path(wanted).expanduser()
    if folder.is_dir():
        folder = folder.resolve()
        # Pinned by its commit, or by its content where it is changed or is no repository.
        how = standing(folder, folder / "src", ignored=False)
        commit = how.identity if how.content else how.commit
        return Origin(requirement=f"transformers @ {folder.as_uri()}", commit=commit)
    found = _GIT.match(wanted) or _GIT.match(f"git+{wanted}" if "://" in wanted else "")
    if found is None:
        return Origin(requirement=wanted, commit="")
    url, told = without_credentials(found["url"])
    revision = found["rev"] or "HEAD"
    commit = revision if _COMMIT.fullmatch(revision) else _ask(url, revision, told)
    return Origin(requirement=f"transformers @ git+{url}@{commit}", commit=commit, told=told)


def _ask(url: str, revision: str, told: Mapping[str, str]) -> str:
    done = list_remote(url, [revision, f"{revision}^{{}}"], told=told, seconds=_SECONDS)
    lines = [line.partition("\t") for line in done.out.splitlines()]
    commits = {name: commit for commit, _, name in lines}
    # Asked for `main`, a repository lists every `x/main` too.
    tag = f"refs/tags/{revision}"
    for name in (revision, f"refs/heads/{revision}", f"{tag}^{{}}", tag):
        if done.code == 0 and name in commits:
            return commits[name]
    reason = subprocesses.anonymous(" ".join(done.err.split()) or f"it has no {revision}")
    raise UnbuildableError(f"the repository does not answer: {reason}"[:300])


def main_checkout() -> Checkout | None:
    """Return the checkout that REPROMATRIX_MAIN names; None where it names no folder.

    Raises RunnerError where the folder holds no sources of transformers.
    """
    wanted = os.environ.get(VARIABLE, "")
    folder = Path(wanted).expanduser()
    return read_checkout(folder) if wanted and folder.is_dir() else None


_HOSTED = re.compile(r"(?:https://|git@)[\w.-]+[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?")


def repository_of(folder: Path) -> str:
    """Return `owner/name` of a clone's origin; empty where that is no address of a host."""
    address = _ask_git(folder, "remote", "get-url", "origin") or ""
    found = _HOSTED.fullmatch(address.strip())
    return found[1] if found else ""


def build_main_checkout(
    home: Home, checkout: Checkout, name: str = MAIN
) -> tuple[Environment, Built]:
    """Build what a checkout declares that it needs; its sources are put in front when cells run.

    Its `setup.py` is not run. Raises UnbuildableError, also where no versions satisfy its needs.
    """
    try:
        environment, built = home.environment(checkout.declared, taken_apart(name).extras)
    except RunnerError as error:
        raise UnbuildableError(error.faults[0].what) from error
    pins = {**environment.pins, checkout.package: checkout.version}
    return dataclasses.replace(environment, name=name, source=Source.MAIN, pins=pins), built


def build_main(paths: Paths, matrix: Matrix, name: str = MAIN) -> tuple[Environment, Built]:
    """Build `main`, or `main` with extras; companions are the newest release's where they fit.

    Raises UnbuildableError.
    """
    source = origin(matrix)
    lock = _lock(paths, matrix, source, taken_apart(name).extras)
    here = markers(matrix.python)
    versions = read_lock(lock, name, name).versions(here)
    facts = (source.requirement, source.commit, lock, uv.torch_backend())
    digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()
    recipe = Recipe(
        name=name,
        digest=digest[:16],
        python=matrix.python,
        lock=lock,
        torch=matrix.torch.version,
        beside=(source.requirement,),
        told=source.told,
        versions={**versions, "torch": matrix.torch.version},
    )
    built = build(paths, recipe)
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


def _lock(paths: Paths, matrix: Matrix, source: Origin, extras: tuple[str, ...]) -> str:
    newest = matrix.releases[-1].name
    pinned = read_lock((paths.locks / f"{newest}.txt").read_text(encoding="utf-8"), newest, newest)
    # Only what it installs here: a pin for another platform is no wish of ours.
    versions = pinned.versions(markers(matrix.python))
    preferred = "".join(f"{name}=={version}\n" for name, version in versions.items())
    wanted = [source.requirement, *matrix.companions, *extras]
    try:
        text = compile_lock(
            matrix, wanted, until=None, where=MAIN, preferred=preferred, told=source.told
        )
    except RunnerError as error:
        raise UnbuildableError(error.faults[0].what) from error
    # transformers itself is installed from its source, not from an index.
    return re.sub(r"(?m)^transformers(?: @|==).*(?:\\\n.*)*\n", "", text)


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageSources:
    """A package, and the folder of a checkout that is put in front on the path for it."""

    package: str
    root: str
    """`src`, or empty for the folder itself."""

    @property
    def folder(self) -> str:
        """Where its modules are in a checkout."""
        return str(PurePosixPath(self.root) / self.package)

    @property
    def init(self) -> str:
        """The file that claims a version."""
        return f"{self.folder}/__init__.py"


def packages_in(has_file: Callable[[str], bool]) -> Iterator[PackageSources]:
    """Yield the packages under test that a checkout holds, told by which files it has."""
    for package in MOVED:
        for root in ("src", ""):
            sources = PackageSources(package=package, root=root)
            if has_file(sources.init):
                yield sources


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkout:
    """The sources of one package, edits included."""

    package: str
    root: Path
    """The folder that holds the package."""
    claims: str
    """The version that it says it is."""
    standing: SourceState
    declared: Declaration
    """What it says that it needs; nothing where that cannot be read."""

    @property
    def folder(self) -> Path:
        """Where the modules of the package are."""
        return self.root / self.package

    @property
    def version(self) -> str:
        """What it claims, with what tells it from others that claim the same."""
        return with_commit(self.claims, self.standing.identity)

    def within(self, base: Environment) -> Environment:
        """Return an environment in which its sources take the place of what is installed."""
        return dataclasses.replace(
            base,
            name=f"{base.name}@{self.standing.identity}",
            source=Source.INTERPRETER,
            pins={**base.pins, self.package: self.version},
        )


def read_checkout(path: Path) -> Checkout:
    """Read what a checkout holds, importing nothing; raises RunnerError when it is none of ours."""
    path = path.expanduser().resolve()
    if not path.is_dir():
        raise refuse(Problem(str(path), "the folder does not exist"))
    sources = list(packages_in(lambda name: (path / name).is_file()))
    packages = list(dict.fromkeys(found.package for found in sources))
    if len(packages) != 1:
        if not packages:
            raise refuse(Problem(str(path), f"the folder has no sources of {join(MOVED, 'or')}"))
        what = f"the folder has sources of {join(packages)}"
        raise refuse(Problem(str(path), what, "Name a checkout of one package."))
    package, root = packages[0], (path / sources[0].root).resolve()
    init = path / sources[0].init
    state = standing(root / package, root / package, ignored=True)
    return Checkout(
        package=package,
        root=root,
        claims=claimed_version(decode(init.read_bytes(), str(init)), str(init)),
        standing=state,
        declared=_declared(path, package, state),
    )


def _declared(path: Path, package: str, state: SourceState) -> Declaration:
    """Return what a checkout needs, as of the day of its commit; of today where it is edited."""

    def read(name: str) -> str | None:
        file = path / name
        return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else None

    needs: tuple[str, ...] = ()
    with contextlib.suppress(UndeclaredError):
        needs = tuple(map(str, read_requirements(read)))
    day = dt.datetime.now(tz=dt.UTC)
    if state.commit and not state.content:
        committed = _ask_git(path, "log", "-1", "--format=%cI")
        day = dt.datetime.fromisoformat(committed.strip()) if committed else day
    return Declaration(package=package, requirements=needs, day=day.astimezone(dt.UTC).date())


def claimed_version(text: str, where: str) -> str:
    """Return the version that an `__init__.py` assigns; raises RunnerError where it assigns none.

    `where` is what the file is called in an error.
    """
    assigned = f"{where}: __version__"
    for node in parse_python(text, where).body:
        match node:
            case (
                ast.Assign(
                    targets=[ast.Name(id="__version__")], value=ast.Constant(value=str(version))
                )
                | ast.AnnAssign(
                    target=ast.Name(id="__version__"), value=ast.Constant(value=str(version))
                )
            ):
                try:
                    return str(Version(version))
                except ValueError:  # also for a number of 5,000 digits
                    raise refuse(
                        InvalidValue(assigned, version, "a version such as 1.2.3")
                    ) from None
            case _:
                pass
    raise refuse(Problem(assigned, 'needs a version as text, such as "1.2.3"'))


# An editable install is identified by its sources too: with each edit it is another version.
_LIST = """
import hashlib, json, os, sys, urllib.parse
from importlib import metadata
def version(d):
    about = json.loads(d.read_text("direct_url.json") or "{}")
    if not about.get("dir_info", {}).get("editable"):
        return d.version
    sources = hashlib.sha256()
    root = urllib.parse.unquote(urllib.parse.urlparse(about["url"]).path)
    for folder, folders, files in sorted(os.walk(root)):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    sources.update(file.read())
    mark = "." if "+" in d.version else "+"
    return f"{d.version}{mark}edited.{sources.hexdigest()[:12]}"
found = {d.metadata["Name"]: version(d) for d in metadata.distributions() if d.metadata["Name"]}
print(json.dumps([".".join(map(str, sys.version_info[:3])), sys.prefix, found]))
"""


def ask_interpreter(python: Path) -> tuple[Environment, Built]:
    """Ask an interpreter what is installed; raises RunnerError when it does not answer."""
    done = subprocesses.finish([python, "-c", _LIST], seconds=60)
    if done.code != 0:
        last = (done.err.strip().splitlines() or ["it says nothing"])[-1]
        fix = "It must be a Python 3.10 or newer."
        raise refuse(Problem(str(python), f"it cannot list its packages ({last})", fix))
    try:
        version, prefix, found = json.loads(done.out)
    except ValueError as error:  # a start-up file of its own prints first
        what = f"it prints something when it starts: {done.out.strip()[:60]!r}"
        raise refuse(Problem(str(python), what)) from error
    pins = {str(canonicalize_name(name)): found[name] for name in sorted(found)}
    minor = version.rpartition(".")[0]
    installed = hashlib.sha256(json.dumps([prefix, pins]).encode()).hexdigest()
    name = f"{pins.get('transformers', 'none')}@{installed[:8]}"
    environment = Environment(
        name=name, source=Source.INTERPRETER, python=minor, pins=pins, markers=markers(minor)
    )
    return environment, Built(name=name, folder=Path(prefix), python=python, versions=pins)
