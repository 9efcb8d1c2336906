"""The pinned environments of this checkout, and the one that is not pinned: `main`."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import sys
import time
import zipfile
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import pytest
from factories import case_text
from packaging.version import Version

from repromatrix.runner import project
from repromatrix.runner.environments import building, locks, uv
from repromatrix.runner.environments.building import UnbuildableError
from repromatrix.runner.environments.development import Origin, origin, with_commit
from repromatrix.runner.environments.uv import configured, for_uv
from repromatrix.runner.model.lock import left_out
from repromatrix.runner.model.requirements import parse, unsatisfied
from repromatrix.runner.paths import ROOT
from repromatrix.runner.subprocesses import Finished, finish

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from repromatrix.runner.environments.building import Built
    from repromatrix.runner.model.cell import Environment
    from repromatrix.runner.model.matrix import Matrix
    from repromatrix.runner.paths import Paths
    from repromatrix.runner.project import Project

FINDING = {"UV_FIND_LINKS", "PIP_FIND_LINKS"}
DEVELOPED = "4.99.0.dev0"
PYPROJECT = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "transformers"
version = "{version}"
dependencies = {dependencies}

[tool.setuptools]
packages.find.include = ["transformers*"]
package-data."*" = ["*"]
"""


# The pins --------------------------------------------------------------------------------------


def test_every_release_stack_and_what_cases_derive_has_a_lock_and_nothing_else(
    places: Paths,
) -> None:
    loaded = project.load(places)
    releases = {release.name for release in loaded.matrix.releases}
    derived = set(project.derived(loaded.matrix, loaded.cases.values()))

    torches = {f"torch{other.version}" for other in loaded.matrix.torch.others}

    found = {path.stem for path in places.locks.iterdir()}
    assert found == {*loaded.matrix.pinned, *derived, *torches}
    assert Version("4.49.0") == min(map(Version, releases))


def test_no_lock_but_those_of_torches_holds_torch_or_what_its_build_brings(places: Paths) -> None:
    told = re.compile(r"(?mi)^(torch|triton|pytorch-triton|nvidia|cuda)\b")
    found = {path.stem for path in places.locks.iterdir() if told.search(path.read_text())}

    assert found == {"torch2.10.0", "torch2.6.0", "torch2.8.0"}


def test_no_lock_names_an_index_or_a_local_build(places: Paths) -> None:
    told = re.compile(r"(?m)^\s*--(?!hash=sha256:)|://|==\S*\+|@ ")
    found = {path.name for path in places.locks.iterdir() if told.search(path.read_text())}

    assert found == set()


def test_every_environment_has_what_torch_needs(checkout: Project) -> None:
    needs = [parse(text) for text in checkout.matrix.torch.requires if not left_out(text)]
    lacking = {
        name: unsatisfied(needs, environment.pins, environment.markers)
        for name, environment in _pinned(checkout)
    }

    assert dict.fromkeys(lacking, ()) == lacking


def test_every_environment_has_its_companions_as_of_its_time(checkout: Project) -> None:
    companions = checkout.matrix.companions
    held = [
        [Version(environment.version(name)) for name in companions]
        for _, environment in _in_order_of_dates(checkout)
    ]

    assert all(
        new >= old for one, other in pairwise(held) for old, new in zip(one, other, strict=True)
    )


def test_releases_are_published_in_the_order_of_their_versions(matrix: Matrix) -> None:
    """Within a minor line always; a patch of an old line may come after a new line began."""
    lines = [
        list(line)
        for _, line in groupby(matrix.releases, key=lambda one: one.name.rpartition(".")[0])
    ]
    first = [line[0].date for line in lines]

    assert sorted(first) == first
    assert all([one.date for one in line] == sorted(one.date for one in line) for line in lines)


def _pinned(checkout: Project) -> list[tuple[str, Environment]]:
    return [(name, checkout.environments[name]) for name in checkout.locks]


def _in_order_of_dates(checkout: Project) -> list[tuple[str, Environment]]:
    releases = sorted(checkout.matrix.releases, key=lambda one: one.date)
    return [(one.name, checkout.environments[one.name]) for one in releases]


# Not the newest release: an index may show a package days after its upload.
@pytest.mark.builds
@pytest.mark.parametrize("name", ["4.50.0", "5.17.0"])
def test_a_lock_is_resolved_to_the_same_text_without_find_links(
    name: str, places: Paths, matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {key: value for key, value in configured().items() if key != "find-links"}
    told = for_uv(settings, {key: value for key, value in os.environ.items() if key not in FINDING})
    monkeypatch.setattr("repromatrix.runner.environments.uv._told", lambda: (told, ()))

    assert (places.locks / f"{name}.txt").read_text() == locks.resolve_release(
        matrix, matrix.release(name)
    )


@pytest.mark.builds
def test_an_environment_is_complete_or_made_anew(
    places: Paths, checkout: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that was killed leaves a folder without its marker."""
    monkeypatch.setenv("REPROMATRIX_ENVIRONMENTS", str(tmp_path))
    lock, environment = checkout.locks["4.50.0"], checkout.environments["4.50.0"]
    recipe = locks.recipe(checkout.matrix, lock, environment)
    torn = tmp_path / f"4.50.0-{recipe.digest[:8]}"
    (torn / "bin").mkdir(parents=True)
    (torn / "bin" / "python").write_text("torn")

    built = building.build(places, recipe)

    asked = finish(
        [built.python, "-c", "from importlib.metadata import version as v; print(v('peft'))"]
    )
    assert (built.folder, f"{environment.version('peft')}\n") == (torn, asked.out)
    assert (tmp_path / "4.50.0").resolve() == torn
    assert built == building.build(places, recipe)


# What `main` is --------------------------------------------------------------------------------


def _git(folder: Path, *arguments: str) -> str:
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = finish(["git", *author, *arguments], folder=folder)
    assert done.code == 0, done.err
    return done.out.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with three commits: on `a/main`, on `main`, and tagged `v1` between."""
    folder = tmp_path / "a repository"
    folder.mkdir()
    _git(folder, "init", "--quiet", "--initial-branch=a/main")
    for number, after in enumerate(("switch -q -c main", "tag -a v1 -m v1", "")):
        (folder / "file").write_text(str(number))
        _git(folder, "add", "file")
        _git(folder, "commit", "--quiet", "-m", str(number))
        if after:
            _git(folder, *after.split())
    return folder


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("git+{uri}@main", "main"),
        ("transformers @ git+{uri}@main", "main"),
        ("{uri}@main", "main"),
        ("git+{uri}", "main"),
        ("git+{uri}@v1", "v1^{commit}"),
        ("git+{uri}@a/main", "a/main"),
    ],
)
def test_a_repository_is_pinned_to_the_commit_that_is_meant(
    asked: str, meant: str, repository: Path, matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = repository.as_uri()
    monkeypatch.setenv("REPROMATRIX_MAIN", asked.format(uri=uri))
    commit = _git(repository, "rev-parse", meant)
    expected = Origin(requirement=f"transformers @ git+{uri}@{commit}", commit=commit)

    assert expected == origin(matrix)


@pytest.mark.parametrize(
    ("asked", "requirement"),
    [
        ("transformers==5.23.0", "transformers==5.23.0"),
        ("git+https://example.org/x@{commit}", "transformers @ git+https://example.org/x@{commit}"),
        (
            "git+ssh://git@example.org/x.git@{commit}",
            "transformers @ git+ssh://git@example.org/x.git@{commit}",
        ),
    ],
)
def test_a_commit_and_any_other_requirement_are_taken_as_they_are(
    asked: str, requirement: str, matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = "0123456789abcdef" * 2 + "01234567"
    monkeypatch.setenv("REPROMATRIX_MAIN", asked.format(commit=commit))
    pinned = commit if "{commit}" in asked else ""

    assert origin(matrix) == Origin(requirement=requirement.format(commit=commit), commit=pinned)


def test_a_folder_is_pinned_by_its_commit_and_by_its_content_once_it_is_changed(
    repository: Path, matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPROMATRIX_MAIN", str(repository))
    commit = _git(repository, "rev-parse", "HEAD")
    clean = origin(matrix)
    seen = []
    (repository / "src").mkdir()
    for text in ("a = 1\n", "a = 2\n", "a = 2\n"):
        (repository / "src" / "x.py").write_text(text)
        seen.append(origin(matrix).commit)

    assert Origin(requirement=f"transformers @ {repository.as_uri()}", commit=commit) == clean
    assert seen[0] != seen[1] == seen[2]
    assert all(one.startswith(f"{commit[:12]}dirty") for one in seen)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (
            "git+file:///nonexistent@main",
            "the repository does not answer: fatal: '<path>' does not",
        ),
        ("git+{uri}@nowhere", "the repository does not answer: it has no nowhere"),
    ],
)
def test_what_cannot_be_reached_is_unbuildable_and_the_reason_names_no_place(
    asked: str,
    reason: str,
    repository: Path,
    matrix: Matrix,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REPROMATRIX_MAIN", asked.format(uri=repository.as_uri()))
    begin = time.monotonic()
    with pytest.raises(UnbuildableError) as caught:
        origin(matrix)

    assert str(caught.value).startswith(reason)
    assert "/" not in str(caught.value)
    assert time.monotonic() - begin < 15


# `main` in a run -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of the program with state of its own."""

    store: Path
    site: Path
    environ: dict[str, str]

    def __call__(self, *arguments: str) -> Finished:
        command = [sys.executable, "-m", "repromatrix", *arguments]
        return finish(command, environ=self.environ, folder=ROOT)

    def cells(self) -> list[tuple[str, ...]]:
        """Return what is stored: environment, precision, outcome, reason, packages."""
        [store] = self.store.parent.glob(f"*{self.store.name}")
        with sqlite3.connect(store) as database:
            return database.execute(
                "SELECT environment, precision, outcome, reason, packages FROM cells"
                " JOIN provenances ON provenances.id = cells.provenance ORDER BY cells.rowid"
            ).fetchall()


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Run]:
    def make(**variables: str) -> Run:
        store, site = tmp_path / "evidence.sqlite", tmp_path / "site"
        own = {"REPROMATRIX_STORE": str(store), "REPROMATRIX_SITE": str(site)}
        return Run(store=store, site=site, environ={**os.environ, **own, **variables})

    return make


NOWHERE = {"REPROMATRIX_MAIN": "git+file:///nonexistent@main"}
REASON = "the repository does not answer: fatal: '<path>' does not appear to be a git repository"


@pytest.fixture
def nowhere_else(tmp_path: Path) -> Path:
    """Return a case that no release can run, so that `main` alone is left to be built."""
    path = tmp_path / "toy_waits.py"
    path.write_text(case_text(dependencies=["transformers>=99"]))
    return path


def test_an_unreachable_main_that_nobody_named_does_not_spoil_the_run(
    run: Callable[..., Run], nowhere_else: Path
) -> None:
    begin = time.monotonic()
    here = run(**NOWHERE)

    done = here("matrix", "--case", str(nowhere_else), "--precision", "fp32")

    [(environment, precision, outcome, reason, _)] = here.cells()
    assert (done.code, done.out) == (0, "")
    assert (environment, precision, outcome) == ("main", "fp32", "unbuildable")
    assert reason.startswith(REASON)
    assert "/" not in reason
    assert "cannot be built" not in done.err
    assert f"\n  left out: main ({REASON[:60]}" in done.err
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("asked", [("--release", "main"), ("--strict",)])
def test_an_unreachable_main_that_was_asked_for_is_an_error(
    asked: tuple[str, ...], run: Callable[..., Run], nowhere_else: Path
) -> None:
    done = run(**NOWHERE)("matrix", "--case", str(nowhere_else), "--precision", "fp32", *asked)

    assert done.code == 4


@pytest.fixture(scope="session")
def built_4_50_0(places: Paths, checkout: Project) -> Built:
    lock, environment = checkout.locks["4.50.0"], checkout.environments["4.50.0"]
    return building.build(places, locks.recipe(checkout.matrix, lock, environment))


@pytest.fixture
def developed(built_4_50_0: Built, tmp_path: Path) -> Path:
    """Return a repository of a transformers in development: 4.50.0 under another version."""
    [installed] = built_4_50_0.folder.glob("lib/python3*/site-packages")
    needs = finish([built_4_50_0.python, "-c", _NEEDS]).out.splitlines()
    folder = tmp_path / "developed"
    shutil.copytree(
        installed / "transformers",
        folder / "transformers",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    version = folder / "transformers" / "__init__.py"
    version.write_text(version.read_text().replace('"4.50.0"', f'"{DEVELOPED}"'))
    (folder / "pyproject.toml").write_text(PYPROJECT.format(version=DEVELOPED, dependencies=needs))
    _git(folder, "init", "--quiet", "--initial-branch=main")
    _git(folder, "add", ".")
    _git(folder, "commit", "--quiet", "-m", "develop")
    return folder


_NEEDS = """
from importlib.metadata import requires
print(*(text for text in requires("transformers") if "extra" not in text), sep="\\n")
"""


@pytest.mark.builds
def test_main_is_measured_from_a_repository_and_its_commit_is_recorded(
    run: Callable[..., Run], developed: Path, tmp_path: Path
) -> None:
    path = tmp_path / "toy_passes.py"
    code = '"""A toy must not break. It does not."""\n\nimport transformers\n'
    path.write_text(case_text(code=code, dependencies=["transformers"]))
    commit = _git(developed, "rev-parse", "HEAD")
    here = run(
        REPROMATRIX_MAIN=f"git+{developed.as_uri()}@main",
        REPROMATRIX_ENVIRONMENTS=str(tmp_path / "environments"),
    )

    options = ["--release", "main", "--precision", "fp32"]

    done = here("matrix", *options, "--case", str(path))

    [(environment, precision, outcome, reason, packages)] = here.cells()
    assert (environment, precision, outcome, reason) == ("main", "fp32", "passes", "")
    assert f'"transformers": "{DEVELOPED}+g{commit[:12]}"' in packages
    assert (done.code, done.out) == (0, "")
    assert [one.name for one in tmp_path.glob("*site/index.html")] == ["index.html"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("5.24.0.dev0", "5.24.0.dev0+g0123456789ab"),
        ("5.24.0.dev0+internal", "5.24.0.dev0+internal.g0123456789ab"),
    ],
)
def test_a_version_names_its_commit_and_stays_a_version(version: str, expected: str) -> None:
    found = with_commit(version, "0123456789abcdef0123456789abcdef01234567")

    assert expected == found == str(Version(found))


@pytest.fixture
def local_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget_index: Callable[[], None]
) -> None:
    """Let the only torch that can be had be a CPU build in a folder of pip's."""
    wheel = tmp_path / "torch-2.13.0+cpu-py3-none-any.whl"
    about = "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("torch-2.13.0+cpu.dist-info/METADATA", about)
        file.writestr("torch-2.13.0+cpu.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        file.writestr("torch-2.13.0+cpu.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    forget_index()


@pytest.mark.usefixtures("local_torch")
def test_a_cpu_build_of_torch_is_preferred_unless_the_user_chose_a_backend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not uv.resolves("torch==2.12.0", python="3.11")
    assert uv.choose_torch("2.13.0", "3.11") == ("torch==2.13.0+cpu", ())
    uv.choose_torch.cache_clear()
    monkeypatch.setenv("UV_TORCH_BACKEND", "cu130")

    assert uv.choose_torch("2.13.0", "3.11") == ("torch==2.13.0", ())


@pytest.mark.builds
def test_the_day_of_a_release_is_found_in_the_index(matrix: Matrix) -> None:
    newest = matrix.releases[-1]

    assert newest.date == locks.published_on(matrix, newest.name)
    assert locks.published_on(matrix, "99.0.0") is None
