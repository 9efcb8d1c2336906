"""Signatures: what stays of a failure when only sizes and places change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.runner.model.observation import signature

PIECES = st.sampled_from(
    [
        *("float16", "index_copy_", "c10::BFloat16", "m1", "0x7f3a", "/usr/lib/x.py", "line 12"),
        *("[2, 3]", "(4, 5)", "torch.Size([1, 2])", "3.5 GiB", "20 ms", "-1", "1e-5", "4.50.0"),
        *("=", "-", ".", ",", ":", "'", "(", ")", "[", "]", "/", "x", "s", "e", "7", " ", "<n>"),
    ]
)


@given(st.lists(PIECES, max_size=15).map("".join))
def test_a_signature_of_a_signature_is_itself(message: str) -> None:
    once = signature("E", message)

    assert once == signature("E", once.removeprefix("E:").strip())


@pytest.mark.parametrize(
    "message",
    [
        "expected m1 and m2 to have the same dtype, but got: float != c10::BFloat16",
        "Input and cos/sin must have the same dtype, got torch.float16 and torch.bfloat16",
        "\"addmm_impl_cpu_\" not implemented for 'Half'",
        "Expected float8_e4m3fn, int64 or uint4x2",
    ],
)
def test_names_of_dtypes_and_operators_stay(message: str) -> None:
    assert f"RuntimeError: {message}" == signature("RuntimeError", message)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("got [2, 4]", "got [16, 8, 4]", "E: got <shape>"),
        ("size torch.Size([2])", "size torch.Size([3, 4])", "E: size <shape>"),
        ("shape (2, 3)", "shape (7, 3, 1)", "E: shape <shape>"),
        ("at 0x7ffee", "at 0x1", "E: at <address>"),
        ("in /usr/lib/a.py", "in /home/me/b.py", "E: in <path>"),
        ("line 3 of it", "line 44 of it", "E: line <n> of it"),
        ("tried 20.00 MiB", "tried 3 GiB", "E: tried <amount>"),
        ("took 3 ms", "took 4.5 seconds", "E: took <amount>"),
        ("index 5 is out", "index -7 is out", "E: index <n> is out"),
        ("off by 1e-05", "off by 0.25", "E: off by <n>"),
        ("two\n  lines", "two lines", "E: two lines"),
    ],
)
def test_sizes_addresses_paths_lines_and_times_go(one: str, other: str, expected: str) -> None:
    assert (expected, expected) == (signature("E", one), signature("E", other))


def test_another_class_is_another_failure() -> None:
    assert signature("ValueError", "x") != signature("TypeError", "x")


def test_a_long_message_is_cut() -> None:
    assert len(signature("E", "word " * 1000)) <= 300
