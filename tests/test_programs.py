"""A test that fails ends the program that it started, instead of waiting for it."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest
from fakes import is_alive
from programs import started, wait_until

HERE = Path(__file__).parent


def test_a_program_is_killed_with_its_group_where_its_block_fails() -> None:
    below: list[int] = []

    def fail() -> None:
        with started(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE) as program:
            assert program.stdout is not None
            below.extend([program.pid, int(program.stdout.readline())])
            pytest.fail("in the block")

    with pytest.raises(pytest.fail.Exception):
        fail()

    assert len(below) == 2
    wait_until(lambda: not any(map(is_alive, below)))


def test_a_program_that_ends_is_left_alone() -> None:
    with started(["sh", "-c", "exit 3"]) as program:
        pass

    assert program.returncode == 3


def test_no_test_starts_a_program_that_it_may_wait_for_without_a_limit() -> None:
    starting = [
        f"{path.relative_to(HERE)}:{node.lineno}"
        for path in sorted(HERE.rglob("*.py"))
        if "fixtures" not in path.parts and path.name != "programs.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Popen")
    ]

    assert starting == []
