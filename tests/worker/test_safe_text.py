"""What a child says of the packages that it imported."""

from __future__ import annotations

import sys
import types

import pytest

from repromatrix.runner.worker import safe_text


def test_where_a_package_lies_is_told_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/{'/'.join(['a-long-name-of-a-folder'] * 40)}/torch/__init__.py"
    torch = types.ModuleType("torch")
    torch.__file__ = path
    for name in ("torch", "transformers", "accelerate", "peft"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", torch)

    assert safe_text.about("__file__") == {"torch": path}


class _Layer:
    def forward(self) -> None:
        message = "mine"
        raise ValueError(message)


def test_a_frame_names_the_class_of_its_method() -> None:
    with pytest.raises(ValueError, match="mine") as caught:
        _Layer().forward()

    lines = safe_text.frames(caught.value).splitlines()
    assert lines[-2].endswith(", in _Layer.forward")
    assert lines[-1] == "    raise ValueError(message)"
