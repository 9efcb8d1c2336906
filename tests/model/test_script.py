"""The inline metadata of a script, and the code below it."""

from __future__ import annotations

import ast
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.model.case import Script, decode, parse_script, syntax_tree

TEXT = """#!/usr/bin/env python
# /// script
# dependencies = ["torch"]
#
# [tool.other]
# key = 1
# ///
print("code")
"""
LINES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x85\u2028\u2029"))


def test_a_script_is_taken_apart() -> None:
    expected = Script(
        table={"dependencies": ["torch"], "tool": {"other": {"key": 1}}},
        block=TEXT[TEXT.index("# ///") : TEXT.rindex("\nprint")],
        code='\nprint("code")\n',
        first_line=3,
    )

    assert expected == parse_script(TEXT, "x.py")


def test_blocks_of_other_kinds_are_left_alone() -> None:
    other = "# /// tool\n# not = toml = at all\n# ///\n"

    assert parse_script(TEXT, "x.py").table == parse_script(other + TEXT, "x.py").table


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "no script block"),
        ("# /// script\n# a = 1\n", "no script block"),
        ("# /// script\nnot a comment\n# ///\n", "no script block"),
        (TEXT + TEXT, "2 script blocks"),
    ],
)
def test_anything_but_one_block_is_refused(text: str, found: str) -> None:
    expected = f"x.py: {found}. A case has exactly one block between `# /// script` and `# ///`."
    with pytest.raises(RunnerError) as caught:
        parse_script(text, "x.py")

    assert expected == str(caught.value)


@given(st.lists(LINES))
def test_whatever_stands_below_the_block_is_code(lines: list[str]) -> None:
    code = "\n" + "".join(f"x{line}\n" for line in lines)

    assert code == parse_script(f"# /// script\n# a = 1\n# ///{code}", "x.py").code


def test_a_file_that_is_not_utf_8_is_refused_at_its_first_wrong_byte() -> None:
    expected = "x.py: not UTF-8 text (byte 0xff at offset 2). Save it as UTF-8."
    with pytest.raises(RunnerError) as caught:
        decode(b"ok\xff\xfe", "x.py")

    assert expected == str(caught.value)


def test_threads_parse_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two trees at a time end in a SystemError of CPython 3.11 now and then.
    inside: list[int] = []
    together: list[int] = []

    def slowly(_: str) -> ast.Module:
        inside.append(1)
        time.sleep(0.01)
        together.append(len(inside))
        inside.pop()
        return ast.Module(body=[], type_ignores=[])

    monkeypatch.setattr(ast, "parse", slowly)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(syntax_tree, ["pass"] * 8))

    assert together == [1] * 8
