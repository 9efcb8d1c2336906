"""The names of `repromatrix`: what each returns, where it is documented, what importing costs."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING

import pytest
from programs import finished

import repromatrix
from repromatrix import api
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

CPU_SECONDS = 0.05
LISTED = "transformers==4.50.3\naccelerate==1.6.0\n"
IMPORT = """
import sys, time
before, began = {*sys.modules}, time.process_time()
import repromatrix
print(time.process_time() - began, *{name.partition(".")[0] for name in {*sys.modules} - before})
"""

DOCTOR = """
import json, sys
from types import SimpleNamespace as Some
import repromatrix
model = Some(config=Some(model_type="gemma3"), dtype="torch.bfloat16")
found = repromatrix.doctor(model)
hits = [[hit.case.name, [cell.precision for cell in hit.stands]] for hit in found.hits]
versions = [found.versions[name] for name in ("transformers", "torch")]
imported = [*{"torch", "transformers", "pandas"} & {*sys.modules}]
print(json.dumps([versions, hits, imported, found.swept, found.text().splitlines()]))
"""


def test_importing_the_package_imports_nothing_but_itself() -> None:
    done = finished([sys.executable, "-c", IMPORT], cwd=ROOT, check=True)
    seconds, *modules = done.stdout.split()

    assert {*modules} - {*sys.stdlib_module_names} == {"repromatrix"}
    assert float(seconds) <= CPU_SECONDS


def test_every_public_name_is_documented_and_no_other() -> None:
    rows = re.findall(r"(?m)^\| `(\w+)", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"))

    assert sorted(rows) == sorted(repromatrix.__all__) == sorted(api.__all__)
    assert all(getattr(repromatrix, name).__doc__ for name in rows)
    assert {*repromatrix.__all__} <= {*dir(repromatrix)}


def test_a_name_that_is_not_public_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="module 'repromatrix' has no attribute 'Paths'"):
        getattr(repromatrix, "Paths")  # noqa: B009 - mypy knows that there is none


@pytest.mark.parametrize("precisions", ["bf16", ["bf16"]])
def test_audit_answers_as_the_command_does(precisions: str | list[str], tmp_path: Path) -> None:
    listed = tmp_path / "requirements.txt"
    listed.write_text(LISTED, encoding="utf-8")
    options = ["--precision", "bf16", "--model", "gemma3", "--format", "json"]
    done = finished([sys.executable, "-m", "repromatrix", "audit", str(listed), *options], cwd=ROOT)

    found = repromatrix.audit(listed, precisions=precisions, models=["gemma3"])

    told = [hit["case"] for hit in json.loads(done.stdout)["hits"]]
    assert done.returncode == 1
    assert [hit.case.name for hit in found.hits] == told
    assert "gemma3_trainer_eval" in told
    assert {hit.stands[0].level for hit in found.hits} == {repromatrix.Level.MEASURED}


def test_advise_names_a_release_and_a_specifier() -> None:
    advice = repromatrix.advise(cases="gemma3_trainer_eval", precisions="bf16")

    assert advice.newest is not None
    assert advice.specifier.startswith(">=4.51.0,")
    assert advice.newest.release in advice.within


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which a release of transformers and a torch seem to be installed."""
    for name, version in (("transformers", "4.50.3"), ("torch", "2.13.0"), ("accelerate", "1.6.0")):
        about = tmp_path / f"{name}-{version}.dist-info"
        about.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (about / "METADATA").write_text(metadata, encoding="utf-8")
        (tmp_path / f"{name}.py").touch()
    return os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}


def test_doctor_answers_for_this_process_and_imports_no_torch(environ: dict[str, str]) -> None:
    done = finished([sys.executable, "-c", DOCTOR], env=environ, check=True)
    versions, hits, imported, swept, text = json.loads(done.stdout)

    assert versions == ["4.50.3", "2.13.0"]
    assert ["gemma3_trainer_eval", ["bf16"]] in hits
    assert {len(precisions) for _, precisions in hits} == {1}
    assert imported == []
    assert swept[1].startswith("  gemma3 (Gemma3ForConditionalGeneration): ")
    assert text[-len(swept) :] == swept


def test_doctor_answers_as_the_command_does(environ: dict[str, str], tmp_path: Path) -> None:
    options = ["--precision", "bf16", "--model", "gemma3", "--format"]
    done, told = (
        finished(
            [sys.executable, "-m", "repromatrix", "doctor", *options, form],
            cwd=tmp_path,
            env=environ,
        )
        for form in ("json", "text")
    )

    assert (done.returncode, told.returncode) == (1, 1)
    assert "gemma3_trainer_eval" in [hit["case"] for hit in json.loads(done.stdout)["hits"]]
    assert f"\n{sys.executable} (interpreter): transformers 4.50.3, torch 2.13" in told.stdout


SETTINGS = """
[tool.repromatrix]
models = ["gemma3"]
precisions = ["bf16"]
[[tool.repromatrix.ignore]]
case = "gemma3_trainer_eval"
reason = "We never evaluate."
[[tool.repromatrix.ignore]]
case = "gemma3_*"
reason = "We wait."
until = 2026-11-01
"""
LLAMA = 'type("M", (), {"config": type("C", (), {"model_type": "llama"})()})()'
CONFIGURED = """
import warnings, repromatrix
with warnings.catch_warnings(record=True) as told:
    found = {call}
asked = getattr(found, "audit", found).question
print(*asked.precisions, *sorted(asked.ignored), *sorted(asked.models))
print(*(each.message for each in told), str(found) if hasattr(found, "text") else "")
"""
ENDED = (
    "Ignored until 2026-11-01, and counts again: gemma3_* (We wait.);"
    " see pyproject.toml: tool.repromatrix.ignore[1]."
)


@pytest.mark.parametrize(
    ("call", "model"),
    [
        ("repromatrix.audit('requirements.txt')", "gemma3"),
        ("repromatrix.advise()", "gemma3"),
        ("repromatrix.doctor()", "gemma3"),
        (f"repromatrix.doctor({LLAMA})", "llama"),
    ],
)
def test_the_settings_of_a_project_hold_in_programs(
    call: str, model: str, environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text(LISTED, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    done = finished(
        [sys.executable, "-c", CONFIGURED.replace("{call}", call)], cwd=tmp_path, env=environ
    )

    assert done.stdout.startswith(f"bf16 gemma3_trainer_eval {model}\n"), done.stderr
    assert ENDED in done.stdout


def test_the_settings_of_a_project_hold_for_the_command(
    environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    done = finished([sys.executable, "-m", "repromatrix", "doctor"], cwd=tmp_path, env=environ)

    assert "Settings: pyproject.toml (precisions bf16; models gemma3).\n" in done.stdout
    assert ENDED in done.stdout


def test_doctor_without_transformers_says_where_to_run_it() -> None:
    told = "but not transformers. Install repromatrix where transformers is"

    with pytest.raises(repromatrix.RunnerError, match=re.escape(told)):
        repromatrix.doctor()


def test_cases_and_evidence_speak_of_the_same_cases() -> None:
    cases = repromatrix.cases()
    rows = repromatrix.evidence()

    assert {row.cell.case for row in rows} <= {*cases}
    assert cases["gemma3_trainer_eval"].script.text.startswith("# /// script")
    assert {row.cell.precision for row in rows} == {*repromatrix.Precision}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"cases": "nosuch"}, "--case: unknown case 'nosuch'"),
        ({"precisions": "bf8"}, "--precision: invalid value 'bf8'; expected"),
        ({"device": "tpu"}, "device: invalid value 'tpu'; expected cpu or cuda."),
    ],
)
def test_a_name_that_does_not_exist_is_refused(arguments: dict[str, str], told: str) -> None:
    with pytest.raises(repromatrix.RunnerError, match=re.escape(told)):
        repromatrix.advise(**arguments)
