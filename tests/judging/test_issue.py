"""A known bug as an issue, in the form of the project whose bug it is."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from factories import BREAKS, case, failed, seen

from repromatrix.runner.judging.issue import KnownBug, issue
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Outcome, Precision

TRACEBACK = """\
  File "cases/toy_breaks.py", line 20, in main
    model(ids)
  File "site-packages/torch/nn/modules/module.py", line 1, in _call_impl
    return forward_call(*args, **kwargs)
  File "site-packages/transformers/a.py", line 1, in a
    b()
  File "site-packages/transformers/b.py", line 2, in b
    c(
  File "site-packages/transformers/c.py", line 3, in c
    d()
  File "site-packages/transformers/d.py", line 4, in d
    e()
  File "site-packages/torch/e.py", line 5, in e
    f()"""


def bug(failing: Observation | None = None, package: str = "transformers") -> KnownBug:
    """Return what is known of a toy that breaks."""
    return KnownBug(
        case=case(BREAKS),
        title="A toy breaks",
        package=package,
        failing=failing or seen(Outcome.FAILS),
        packages={"transformers": "4.50.3", "peft": "0.15.0", "torch": "2.13.0"},
        ranges=["transformers 4.49.0, fixed in 4.50.0", "transformers 4.50.3, not fixed"],
    )


def headings(text: str) -> list[str]:
    return re.findall(r"(?m)^#+ (.+)$", text)


@pytest.mark.parametrize(
    ("package", "between"),
    [
        ("transformers", ["Who can help?", "Information", "Tasks"]),
        ("accelerate", ["Information", "Tasks"]),
        ("peft", ["Who can help?"]),
        ("ms-swift", ["Who can help?"]),
    ],
)
def test_an_issue_has_the_form_of_its_project(package: str, between: list[str]) -> None:
    text = issue(bug(package=package), "go()\n")

    assert headings(text) == [
        *("A toy breaks", "System Info"),
        *between,
        *("Reproduction", "Expected behavior"),
    ]


def test_an_issue_holds_script_versions_ranges_and_what_was_seen() -> None:
    text = issue(replace(bug(), commits=["Broken by it."], also=[Precision.FP16]), "go()\n")

    assert "- transformers version: 4.50.3\n- peft version: 0.15.0\n" in text
    assert "```python\ngo()\n```\n\nWith the versions above, in bf16, it ends with:\n" in text
    assert "It fails with transformers 4.50.3, not fixed.\n" in text
    assert "It failed before with transformers 4.49.0, fixed in 4.50.0.\n" in text
    assert "\n\nBroken by it.\n" in text
    assert "A toy must not break.\n\nSeen instead: ValueError: it breaks.\n" in text
    assert "It also fails in fp16.\n\nRelated: https://example.org/1\n" in text


def test_an_issue_shows_the_last_frames_of_the_libraries() -> None:
    text = issue(bug(seen(Outcome.FAILS, how=replace(failed(), traceback=TRACEBACK))), "go()\n")

    assert text.partition("ends with:\n\n")[2].startswith(
        "```\nTraceback (most recent call last):\n  ...\n"
        '  File "transformers/b.py", line 2, in b\n    c(\n'
        '  File "transformers/c.py", line 3, in c\n    d()\n'
        '  File "transformers/d.py", line 4, in d\n    e()\n'
        '  File "torch/e.py", line 5, in e\n    f()\n'
        "ValueError: it breaks\n```\n"
    )


def test_an_assertion_of_the_script_has_no_frames() -> None:
    how = replace(failed("AssertionError", ""), traceback='  File "cases/x.py", line 1, in main')

    assert "```\nAssertionError\n```" in issue(bug(seen(Outcome.FAILS, how=how)), "go()\n")


def test_what_ends_without_an_exception_is_said_in_words() -> None:
    text = issue(bug(seen(Outcome.CRASHES)), "go()\n")

    assert "in bf16, it crashes:\n\n```\ncrashes\n```\n" in text


def test_a_message_cannot_leave_its_block() -> None:
    text = issue(bug(seen(Outcome.FAILS, how=failed(message="a\n```\n# b @c"))), "go()\n")

    assert "````\nValueError: a\n```\n# b @c\n````\n" in text
