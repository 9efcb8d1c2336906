"""A history made of the sources of real releases, searched in their real environments.

Main goes from 4.49.0 over 4.50.0 to 4.51.0; the patch releases stand on a branch of their own, as
they do in transformers, and the real heal of BLIP-2 in 4.50.3 is a cherry-pick of the one on main.
Between the first two are planted commits that change one file, all of one size and within one
second or so. Made-up histories (`test_commits.py`) try the ways in which commits can be connected.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from histories import git
from real_history import CASE, MODEL, Real, found

from repromatrix.runner import project
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.project import Project

HEAL = "Give the Q-Former the precision of its weights (#37068)"


@pytest.fixture(scope="module")
def loaded() -> Project:
    return project.load(Paths(), [CASE])


@pytest.fixture(scope="module")
def planted(loaded: Project, tmp_path_factory: pytest.TempPathFactory) -> Real:
    """Return main from 4.49.0 on, with what is planted."""
    real = Real(tmp_path_factory.mktemp("real") / "clone", loaded)
    real.lay("4.49.0")
    real.commit("4.49.0")
    git(real.folder, "tag", "v4.49.0")
    real.plant(1, 7, 8, 2, 3, 4, 5)
    return real


@pytest.fixture(scope="module")
def clone(planted: Real) -> Real:
    """Return the whole history."""
    real = planted
    real.lay("4.50.0")
    real.commit("4.50.0")
    git(real.folder, "tag", "v4.50.0")
    real.commit("notes")
    real.lay("4.51.0")
    real.commit("heal", HEAL)
    real.commit("more notes")
    git(real.folder, "checkout", "--quiet", "-b", "v4.51-release")
    real.commit("4.51.0")
    git(real.folder, "tag", "v4.51.0")
    git(real.folder, "checkout", "--quiet", "-b", "v4.50-release", "v4.50.0")
    for release in ("4.50.1", "4.50.2"):
        real.lay(release)
        real.commit(release)
        git(real.folder, "tag", f"v{release}")
    real.lay("4.50.3")
    real.commit("pick", HEAL)
    real.commit("4.50.3")
    git(real.folder, "tag", "v4.50.3")
    git(real.folder, "checkout", "--quiet", "main")
    return real


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    return Paths(root=tmp_path_factory.mktemp("ours"))


@pytest.mark.builds
def test_the_break_is_found_among_commits_of_one_size_and_time(planted: Real, ours: Paths) -> None:
    shas = planted.shas
    answer = found(planted, ours, "4.49.0", "4.50.0", good="v4.49.0", bad=shas["state 3"])

    assert answer.culprit is not None
    assert planted.name(answer.culprit.sha) == "state 3"
    assert answer.last_old is not None
    assert planted.name(answer.last_old.sha) == "state 2"
    sizes = {
        git(planted.folder, "cat-file", "-s", f"{shas[f'state {state}']}:{MODEL}")
        for state in (1, 2, 3, 4, 5, 7, 8)
    }
    assert len(sizes) == 1
    reasons = {planted.name(one.commit): one.reason for one in answer.unjudged}
    assert reasons["state 7"].startswith("cannot be imported: RuntimeError: Failed to import")
    assert reasons["state 7"].endswith("it cannot be imported")
    place = "transformers.models.blip_2.modeling_blip_2:Blip2QFormerModel.forward"
    why = f"fails differently (ValueError: it fails for another reason, in {place})"
    other = {"state 8": why}
    assert {name: why for name, why in reasons.items() if name != "state 7"} in ({}, other)
    assert environments(ours, shas["state 7"]) == {"4.49.0"}
    assert environments(ours, shas["state 3"]) == {"4.49.0"}


def environments(places: Paths, commit: str) -> set[str]:
    """Return the ends in whose environments a commit was tried."""
    with contextlib.closing(Store(places.trials, print)) as store:
        names = [row.cell.environment.split("@") for row in store.rows()]
    return {end for end, sha in names if commit.startswith(sha)}


@pytest.mark.whole
@pytest.mark.builds
def test_bisect_goes_on_from_the_releases_to_the_commit(clone: Real, tmp_path: Path) -> None:
    environ = {**os.environ, "REPROMATRIX_STORE": str(tmp_path / "store.sqlite")}
    wanted = ["blip2_load_half", "--precision", "bf16", "--fix", "--format", "json"]
    command = [sys.executable, "-m", "repromatrix", "bisect", *wanted]
    more = ["--commits", "--repo", str(clone.folder)]
    done = subprocess.run(
        [*command, *more], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    answer = json.loads(done.stdout)

    assert done.returncode == ExitCode.AS_EXPECTED, done.stderr
    assert (answer["older"]["release"], answer["newer"]["release"]) == ("4.50.2", "4.50.3")
    assert (answer["commit"]["commit"], answer["runs"]) == (clone.shas["pick"], 4)
