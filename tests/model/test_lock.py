"""Locks: every line one exact version with a hash, none of them torch's."""

from __future__ import annotations

import pytest
from factories import MARKERS

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.model.lock import inputs_digest, left_out, parted, read_lock

TEXT = """# Made by: nox -s lock -- 4.50.0
# input: 0123456789abcdef
Huggingface_Hub==0.29.3 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:cc
numpy==2.2.4 ; python_full_version < '3.12' \\
    --hash=sha256:dd
numpy==2.3.0 ; python_full_version >= '3.12' \\
    --hash=sha256:ee
"""


def test_a_lock_holds_what_its_markers_install_here() -> None:
    lock = read_lock(TEXT, "4.50.0", "x.txt")
    expected = {"huggingface-hub": "0.29.3", "numpy": "2.2.4"}

    assert expected == lock.versions(MARKERS)
    assert lock.inputs == "0123456789abcdef"


def test_packages_are_parted_from_a_lock_with_all_their_lines() -> None:
    rest, apart = parted(TEXT, {"numpy", "huggingface-hub"})

    assert [line.split()[0] for line in apart.splitlines() if line[0] != " "] == [
        "Huggingface_Hub==0.29.3",
        "numpy==2.2.4",
        "numpy==2.3.0",
    ]
    assert rest == "colorama==0.4.6 ; sys_platform == 'win32' \\\n    --hash=sha256:cc\n"


def test_a_changed_hash_is_another_lock() -> None:
    one, other = (read_lock(text, "x", "x") for text in (TEXT, TEXT.replace("aa", "ab")))

    assert one.digest != other.digest


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch", True),
        ("Torch", True),
        ("triton", True),
        ("nvidia_cublas_cu12", True),
        ("cuda-bindings", True),
        ("pytorch-triton-rocm", True),
        ("torchvision", False),
        ("tritonclient", False),
        ("accelerate", False),
    ],
)
def test_what_torchs_build_brings_is_left_out(name: str, expected: bool) -> None:  # noqa: FBT001
    assert expected is left_out(name)


def test_other_inputs_have_another_digest() -> None:
    assert inputs_digest(["a", "b"]) == inputs_digest(("a", "b"))
    assert inputs_digest(["a", "b"]) != inputs_digest(["a", "c"])


def test_a_version_with_a_wildcard_pins_nothing() -> None:
    with pytest.raises(RunnerError, match="tqdm has no exact version"):
        read_lock("tqdm==4.* --hash=sha256:aa\n", "4.50.0", "x.txt")
