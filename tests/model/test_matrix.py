"""The axes: one line per release, in the order of their versions."""

from __future__ import annotations

import datetime as dt

import pytest

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.model.matrix import Release, read_matrix
from repromatrix.runner.model.outcomes import Precision

TEXT = """
precisions = ["fp32", "bf16"]
python = "3.11"
companions = ["accelerate"]
releases = [
  { name = "4.9.0", date = 2025-01-01 },
  { name = "4.10.0", date = 2025-02-01 },
]
[torch]
version = "2.13.0"
as-of = 2026-11-20
requires = ["filelock"]
[limits]
seconds = 60
memory = 4096
[main]
requirement = "transformers @ git+https://example.org/transformers@main"
"""


def _refused(text: str) -> str:
    with pytest.raises(RunnerError) as caught:
        read_matrix(text)
    return str(caught.value)


def test_the_axes_are_read() -> None:
    matrix = read_matrix(TEXT)

    assert matrix.pinned == ("4.9.0", "4.10.0")
    assert matrix.precisions == (Precision.FP32, Precision.BF16)
    assert matrix.release("4.10.0") == Release.model_construct(
        name="4.10.0", date=dt.date(2025, 2, 1)
    )


def test_what_is_built_from_an_sdist_is_told_by_its_version() -> None:
    line = 'sdists = [{ name = "flash-attn", version = "2.7", requires = ["einops"] }]'
    matrix = read_matrix(TEXT.replace("[torch]", f"{line}\n[torch]"))

    assert matrix.sdists_among({"flash-attn": "2.7"}) == matrix.sdists
    assert matrix.sdists_among({"flash-attn": "2.8"}) == ()


def test_an_sdist_that_needs_no_package_is_refused() -> None:
    line = 'sdists = [{ name = "flash-attn", version = "2.7", requires = ["?"] }]'
    found = _refused(TEXT.replace("[torch]", f"{line}\n[torch]"))

    assert found.startswith(
        "environments/matrix.toml: matrix.sdists[0].requires[0]: invalid value '?': "
    )


def test_a_release_that_stands_twice_is_refused() -> None:
    assert "4.9.0 stands after 4.9.0" in _refused(TEXT.replace("4.10.0", "4.9.0"))
