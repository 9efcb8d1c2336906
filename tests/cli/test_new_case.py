"""A case begun from an address or from a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from repromatrix.runner.cases import load_case
from repromatrix.runner.cli.new_case import begin
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.judging.lint import scrutinise
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from pathlib import Path

ISSUE = "https://github.com/huggingface/peft/issues/2421"
LEFT_TO_A_PERSON = ["title", "area", "models", "trigger", "symptom", "docstring"]
SCRIPT = """\
# /// script
# dependencies = ["torch==2.5", "transformers==4.50.0", "accelerate>=1.0"]
# ///
import torch
"""


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    """Return a checkout of its own without cases."""
    (tmp_path / "environments").symlink_to(ROOT / "environments")
    (tmp_path / "cases").mkdir()
    return Paths(root=tmp_path)


def _begin(places: Paths, source: object, name: str = "") -> Path:
    begin(places, Console(quiet=True), str(source), name)
    [path] = places.cases.iterdir()
    return path


def _script(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "My Script.py"
    path.write_text(text)
    return path


def _left(path: Path) -> list[str]:
    case = load_case(path, path.name)
    return [str(fault).split(": ")[1] for fault in scrutinise(case, {}, tuple(Precision), Device)]


def test_an_address_fills_in_what_it_tells_and_leaves_what_only_a_person_knows(
    places: Paths,
) -> None:
    path = _begin(places, f"{ISSUE}#issuecomment-1")
    case = load_case(path, path.name)

    assert path.name == "peft_issue_2421.py"
    assert case.block.reports == (ISSUE,)
    assert [str(item) for item in case.head.dependencies] == ["torch", "transformers", "peft"]
    assert _left(path) == LEFT_TO_A_PERSON


def test_a_script_keeps_its_body_and_lets_go_of_the_versions_that_the_matrix_moves(
    places: Paths, tmp_path: Path
) -> None:
    path = _begin(places, _script(tmp_path, SCRIPT), "toy_breaks")
    case = load_case(path, path.name)

    assert path.name == "toy_breaks.py"
    assert case.script.code.lstrip("\n") == "import torch\n"
    assert [str(item) for item in case.head.dependencies] == [
        "torch",
        "transformers",
        "accelerate>=1.0",
    ]
    assert _left(path) == ["title", "reports", *LEFT_TO_A_PERSON[1:]]


def test_what_stands_above_the_block_is_kept_and_a_local_path_is_no_network(
    places: Paths, tmp_path: Path
) -> None:
    above = '#!/usr/bin/env python\n"""A toy."""\n\nX = 1\n'
    body = "import torch\nAutoModel.from_pretrained('./out')\n"
    path = _begin(
        places, _script(tmp_path, above + SCRIPT.replace("import torch\n", body)), "a_toy"
    )

    assert path.read_text().endswith('# ///\n"""A toy."""\n\nX = 1\n' + body)


def test_a_development_version_becomes_the_package_itself(places: Paths, tmp_path: Path) -> None:
    address = "transformers @ git+https://github.com/huggingface/transformers"
    path = _begin(places, _script(tmp_path, SCRIPT.replace("transformers==4.50.0", address)))

    assert '"transformers",' in path.read_text()


def test_the_text_of_a_report_fills_the_block(
    places: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.txt"
    report.write_text("title: Loading GPT-2 in fp16\nfrom_pretrained\nValueError: it is odd\n")
    address = "https://github.com/huggingface/transformers/issues/1"

    begin(places, Console(width=200, stderr=True), address, "gpt2_load", str(report))

    block = load_case(places.cases / "gpt2_load.py", "gpt2_load.py").block
    assert (block.title, block.trigger, block.symptom) == (
        "Loading GPT-2 in fp16",
        ("load",),
        ("error",),
    )
    printed = capsys.readouterr().err
    assert "The report shows ValueError: it is odd" in printed
    assert "Try it on 4.49.0,5.23.0 first." in printed
    with pytest.raises(RunnerError, match="--text: the file 'nosuch' does not exist"):
        begin(places, Console(quiet=True), address, "gpt2_other", "nosuch")
