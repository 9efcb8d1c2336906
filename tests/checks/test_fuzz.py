"""What the check of readers sees, and how it changes inputs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from readers import Target

from checks import fuzz
from checks.fuzz import HANG, trouble
from repromatrix.runner.errors import Problem, RunnerError, refuse


def _raising(error: Exception) -> Callable[[bytes], object]:
    def read(_: bytes) -> object:
        raise error

    return read


def _endless(_: bytes) -> object:
    while True:
        pass


EMPTY = refuse(Problem("", "it is wrong"))
WHOLE = refuse(Problem("here", "it is wrong"))


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (len, ""),
        (_raising(WHOLE), ""),
        (_raising(EMPTY), "no address: : it is wrong."),
        (_raising(RunnerError([])), "no address: "),
        (_raising(KeyError("x")), "KeyError in a check"),
        (_endless, HANG),
    ],
)
def test_what_a_reader_may_not_do_is_seen(
    read: Callable[[bytes], object], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "LONGEST", 0.2)

    assert trouble(Target(name="mine", seeds=(b"",), read=read), b"") == told
