"""`audit` and `advise` with models: what the sweep found stands below what cases say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from swept import line, record

from repromatrix.runner import files
from repromatrix.runner.cli.advise import AdviseOptions, advise_release
from repromatrix.runner.cli.audit import AuditOptions, audit_packages
from repromatrix.runner.errors import ExitCode, RunnerError
from repromatrix.runner.evidence.swept import published
from repromatrix.runner.evidence.swept.published import read_history, texts
from repromatrix.runner.evidence.swept.records import ProbeStatus
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.evidence.swept.history import SweepHistory


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Return the checkout, with a published sweep in which llama and gptj fail on 4.50.0."""
    fails, holds = ProbeStatus.FAILS, ProbeStatus.HOLDS
    known = line(
        *(
            [record(kind, "static-bf16", how, "size 3") for kind in ("llama", "gptj")]
            for how in (holds, fails, holds)
        )
    )
    files.write_all(texts(tmp_path, known, (), ()))

    def read(_: Path, folder: str = published.FOLDER) -> SweepHistory:
        return read_history(tmp_path, folder)

    monkeypatch.setattr(published, "read_history", read)
    return Paths()


def requirements(folder: Path, version: str) -> str:
    path = folder / "requirements.txt"
    path.write_text(f"transformers=={version}\naccelerate==1.5.2\npeft==0.15.1\n")
    return str(path)


@pytest.mark.parametrize("name", ["gptj", "EleutherAI/gpt-j-6B", "GPTJForCausalLM"])
@pytest.mark.parametrize("version", ["4.50.0", "4.51.0"])
def test_a_model_that_no_case_is_about_is_answered_by_those_of_any_model_and_the_sweep(
    version: str, name: str, paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = AuditOptions(path=requirements(tmp_path, version), model=[name], format="json")

    assert audit_packages(paths, options) is ExitCode.UNEXPECTED
    answer = json.loads(capsys.readouterr().out)
    assert {(*hit["models"],) for hit in answer["hits"]} == {("any",)}
    (found,) = answer["swept"]
    assert [one["probe"] for one in found["failing"]] == ["static-bf16"] * (version == "4.50.0")


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ("swept 4.50.0", ExitCode.UNEXPECTED),
        ("swept 4.51.0", ExitCode.AS_EXPECTED),
        ("measured 4.51.0", ExitCode.UNEXPECTED),
        ("none 4.50.0", ExitCode.AS_EXPECTED),
    ],
)
def test_a_build_fails_on_probes_where_they_are_named(
    asked: str,
    code: ExitCode,
    paths: Paths,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    word, version = asked.split()
    path = requirements(tmp_path, version)
    options = AuditOptions(path=path, model=["gptj"], fail_on=[word], format="github")

    assert audit_packages(paths, options) is code
    *_, told = capsys.readouterr().out.splitlines()
    level = "warning" if version == "4.50.0" else "notice"
    assert told.startswith(f"::{level} title=Swept%3A tiny random models; what needs ")


def test_a_log_for_code_scanning_has_no_probes(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = requirements(tmp_path, "4.50.0")
    options = AuditOptions(path=path, model=["gptj"], format="sarif")

    assert audit_packages(paths, options) is ExitCode.UNEXPECTED
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["results"]
    assert "static-bf16" not in json.dumps(run)


def test_a_model_with_cases_has_both_answers_and_cases_decide(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = requirements(tmp_path, "4.51.0")
    alone = audit_packages(paths, AuditOptions(path=path))
    capsys.readouterr()

    both = AuditOptions(path=path, model=["llama"])
    assert audit_packages(paths, both) is alone
    text = capsys.readouterr().out
    assert text.splitlines()[-2].startswith("Swept: tiny random models")
    assert "  llama (LlamaForCausalLM): " in text.splitlines()[-1]


def test_advice_says_what_the_sweep_found_on_the_release(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    options = AdviseOptions(model=["gptj"], format="markdown")
    advise_release(paths, options)

    text = capsys.readouterr().out
    assert "No case is about gptj; cases about any model answer." in text
    assert "- gptj (GPTJForCausalLM): " in text


def test_a_model_that_nobody_knows_is_refused(paths: Paths, tmp_path: Path) -> None:
    options = AuditOptions(path=requirements(tmp_path, "4.51.0"), model=["lama"])

    with pytest.raises(RunnerError) as raised:
        audit_packages(paths, options)
    assert raised.value.code is ExitCode.BAD_INPUT


def test_without_models_the_sweep_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(published, "read_history", lambda _: pytest.fail("it was read"))
    audit_packages(Paths(), AuditOptions(path=requirements(tmp_path, "4.51.0")))

    assert "Swept" not in capsys.readouterr().out
