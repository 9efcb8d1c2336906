"""`[tool.repromatrix]` of a project: where it is found, what it fills in, what fails the build."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from factories import BREAKS, case_text, installed, what_is_known

from repromatrix.runner.audit.hits import audit
from repromatrix.runner.audit.lines import file_of
from repromatrix.runner.audit.questions import AuditQuestion
from repromatrix.runner.audit.settings import (
    FailOn,
    fails_build,
    find_settings,
)
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.model.case import read_case
from repromatrix.runner.model.outcomes import Outcome, Precision
from repromatrix.runner.planning.selection import SelectionRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from repromatrix.runner.audit.hits import Hit

TODAY = dt.date(2026, 12, 1)
TABLE = '[tool.repromatrix]\nmodels = "toy"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project below a folder that has settings, in which we are."""
    (tmp_path / "pyproject.toml").write_text('[tool.repromatrix]\nmodels = ["upper"]\n')
    folder = tmp_path / "project"
    (folder / "deep").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def found(beside: str | None = None) -> tuple[str, tuple[str, ...]] | None:
    """Return the file and the models of the settings."""
    used = find_settings(Path(beside) if beside else None, TODAY)
    return (used.file, used.settings.models) if used else None


def test_settings_are_those_of_the_nearest_project_of_the_file_then_of_the_directory(
    project: Path, tmp_path: Path
) -> None:
    upper = (str(tmp_path / "pyproject.toml"), ("upper",))
    (project / "pyproject.toml").write_text("[tool.other]\nname = 'repromatrix'\n")
    assert (found(), found("deep/uv.lock")) == (upper, upper)

    (project / "deep" / "pyproject.toml").write_text(TABLE)
    (project / "pyproject.toml").write_text("[project]\nname = \n")
    deep = ("deep/pyproject.toml", ("toy",))
    assert (found(), found("deep/uv.lock"), found("deep")) == (upper, deep, deep)
    assert found("/nowhere/uv.lock") == upper


def test_a_project_that_cannot_be_read_is_refused(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.repromatrix\n")
    with pytest.raises(RunnerError, match=r"^pyproject\.toml: invalid TOML"):
        found()

    (project / "pyproject.toml").write_bytes(b"# repromatrix\n" + b"#" * 2**20)
    with pytest.raises(RunnerError, match=r"^pyproject\.toml: the file is larger than 1 MB\.$"):
        found()

    (project / "pyproject.toml").write_bytes(b"# repromatrix \xff\n")
    with pytest.raises(RunnerError, match=r"^pyproject\.toml: not UTF-8 text"):
        found()


def test_the_folder_of_a_virtualenv_is_that_of_the_project(project: Path) -> None:
    (project / "pyproject.toml").write_text(TABLE)
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "bin" / "python").symlink_to("/usr/bin/env")
    beside = file_of(dataclasses.replace(installed(), what=".venv/bin/python"))

    assert found(str(beside)) == ("pyproject.toml", ("toy",))
    assert file_of(dataclasses.replace(installed(), what="standard input")) is None


def test_settings_fill_in_what_was_not_typed(project: Path) -> None:
    (project / "pyproject.toml").write_text(f'{TABLE}precisions = ["bf16", "fp16"]\n')
    used = find_settings(None, TODAY)
    assert used is not None
    typed = SelectionRequest(precision=["fp32"], area=["toys"])

    assert used.filled(typed) == dataclasses.replace(typed, model=("toy",))
    assert used.filled(SelectionRequest()) == SelectionRequest(
        model=("toy",), precision=(Precision.BF16, Precision.FP16)
    )
    assert used.addresses(typed) == {"--model": "pyproject.toml: tool.repromatrix.models"}


def hit(symptom: str, kind: str, at: str) -> Hit:
    """Return a hit at a version that was measured, or between two that were."""
    text = case_text(f'kind = "{kind}"\n{BREAKS}').replace('["error"]', f'["{symptom}"]')
    toy = read_case(text, "cases/toy_breaks.py")
    outcomes = {"4.50.0": Outcome.FAILS, "4.50.2": Outcome.FAILS}
    question = AuditQuestion(precisions=(Precision.BF16,))
    (only,) = audit(installed(at), what_is_known(outcomes, toy), question).hits
    return only


HITS = {
    "measured": hit("error", "bug", "4.50.0"),
    "derived": hit("error", "bug", "4.50.1"),
    "silent": hit("nan-or-inf", "bug", "4.50.1"),
    "intended": hit("nan-or-inf", "change", "4.50.0"),
}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], [*HITS]),
        (["measured"], ["measured", "intended"]),
        (["derived"], ["derived", "silent"]),
        (["measured", "derived"], [*HITS]),
        (["silent"], ["silent", "intended"]),
        (["bug"], ["measured", "derived", "silent"]),
        (["change", "policy"], ["intended"]),
        (["bug", "silent", "derived"], ["silent"]),
        (["bug", "silent", "measured"], []),
        (["swept"], []),
        (["none"], []),
    ],
)
def test_a_hit_fails_the_build_where_it_is_one_of_each_group(
    words: Sequence[str], expected: Sequence[str]
) -> None:
    asked = [FailOn(word) for word in words]

    assert [name for name, one in HITS.items() if fails_build(one, asked)] == expected
