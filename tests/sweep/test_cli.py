"""`sweep`: what is asked for is named, what is not there is refused with what is near."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from swept import line, record
from tiny_recipes import CONTENT

from repromatrix.runner import files
from repromatrix.runner.cli.options import stderr_console
from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.evidence.swept.history import SweepHistory
from repromatrix.runner.evidence.swept.probes import PROBES
from repromatrix.runner.evidence.swept.published import PublishedFinding, texts
from repromatrix.runner.evidence.swept.records import ProbeStatus
from repromatrix.runner.paths import Paths
from repromatrix.sweep.classes import made_class
from repromatrix.sweep.classes import write as write_classes
from repromatrix.sweep.cli import SweepOptions, sweep
from repromatrix.sweep.recipe_files import load_recipes, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Return the checkout with one recipe of its own."""
    folder = tmp_path / "recipes"
    write(folder, {**CONTENT, "home": "4.51.0"})
    monkeypatch.setattr(Paths, "recipes", property(lambda _: folder))
    monkeypatch.setenv("REPROMATRIX_STORE", str(tmp_path / "evidence.sqlite"))
    return Paths()


def test_a_dry_run_says_how_many_cells_each_release_has(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    options = SweepOptions(release="4.51.0", probe=["outputs-*", "static"], dry_run=True)

    assert sweep(paths, options, stderr_console()) is ExitCode.AS_EXPECTED
    # The recipe was made on 4.51.0: the release before it has no cell.
    assert capsys.readouterr().err.split() == ["4.50.3", "0", "cells", "4.51.0", "2", "cells"]
    assert not paths.sweep.exists()


def test_a_published_finding_says_what_is_run_to_show_it_again(
    paths: Paths,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = PublishedFinding(
        *("5.1.0", "5.0.0", "broken-1", "broken", "llama", "static build"), what="", place=""
    )
    again = found._replace(release="5.3.0", against="5.2.0")
    files.write_all(texts(tmp_path, SweepHistory(), (), [found, again]))
    monkeypatch.setattr(Paths, "published", property(lambda _: tmp_path))

    def planned(release: str = "") -> list[str]:
        options = SweepOptions(script="broken-1", dry_run=True, release=release)
        assert sweep(paths, options, stderr_console()) is ExitCode.AS_EXPECTED
        return capsys.readouterr().err.split()

    assert planned() == ["5.2.0", "1", "cell", "5.3.0", "1", "cell"]
    assert planned(release="5.1.0") == ["5.0.0", "1", "cell", "5.1.0", "1", "cell"]
    # Of a finding that is not published nothing is known: everything is run.
    assert int(planned(release="5.2.0")[1]) > 1


def test_a_budget_or_a_sandbox_is_refused_on_a_cluster(paths: Paths) -> None:
    for given in ({"budget": "1m"}, {"sandbox": True}):
        options = SweepOptions(ray="local", **given)
        (option,) = given

        with pytest.raises(RunnerError, match=f"--{option} cannot be combined with --ray"):
            sweep(paths, options, stderr_console())


def test_further_classes_have_one_cell_each_and_answer_to_their_architecture(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    recipes = load_recipes(paths.recipes)
    made = {**CONTENT, "class": "LlamaModel"}
    write_classes(paths.recipes, [made_class(recipes["llama"], "5.0.0", made)], recipes)
    options = SweepOptions(release="5.1.0", classes=True, model=["llama"], dry_run=True)

    assert sweep(paths, options, stderr_console()) is ExitCode.AS_EXPECTED
    assert capsys.readouterr().err.split() == ["5.0.0", "1", "cell", "5.1.0", "1", "cell"]
    with pytest.raises(RunnerError) as raised:
        sweep(paths, SweepOptions(classes=True, model=["lama"]), stderr_console())
    assert "nothing is called 'lama'. Did you mean 'llama'" in str(raised.value.faults[0])


def test_between_two_releases_that_differ_the_newest_is_run_first(
    paths: Paths,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(paths.recipes, {**CONTENT, "home": "4.49.0"})
    states = (ProbeStatus.HOLDS, ProbeStatus.HOLDS, ProbeStatus.FAILS)
    files.write_all(
        texts(tmp_path, line(*([record("llama", "static", one)] for one in states)), (), ())
    )
    monkeypatch.setattr(Paths, "published", property(lambda _: tmp_path))
    options = SweepOptions(between=True, probe=["static"], dry_run=True, sandbox=False)

    assert sweep(paths, options, stderr_console()) is ExitCode.AS_EXPECTED
    assert capsys.readouterr().err.splitlines()[-1].split() == ["4.50.3", "1", "cell"]
    # Without --probe it is asked what the releases around it were asked: here, everything.
    sweep(paths, SweepOptions(between=True, dry_run=True, sandbox=False), stderr_console())
    families = {(probe.family, probe.dtype == "fp16") for probe in PROBES}
    assert capsys.readouterr().err.split()[-3:] == ["4.50.3", str(len(families)), "cells"]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (SweepOptions(release="4.51.9"), 2, "--release: invalid value '4.51.9'"),
        (
            SweepOptions(model=["lama"]),
            2,
            "--model: nothing is called 'lama'. Did you mean 'llama'",
        ),
        (SweepOptions(probe=["statik"]), 2, "--probe: nothing is called 'statik'. Did you mean"),
        (SweepOptions(commit="fixed-1"), 2, "--commit: needs --repo. Give the path of a clone"),
        (SweepOptions(release="4.50.0"), 3, "--model: no architecture has a recipe on 4.50.0"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is_near(
    options: SweepOptions, code: int, said: str, paths: Paths
) -> None:
    with pytest.raises(RunnerError) as raised:
        sweep(paths, options, stderr_console())

    assert raised.value.code == code
    assert str(raised.value.faults[0]).startswith(said)
