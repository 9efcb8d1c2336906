"""What a child says of the packages that it imported."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING

from repromatrix.runner.worker import safe_text

if TYPE_CHECKING:
    import pytest


def test_where_a_package_lies_is_told_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/{'/'.join(['a-long-name-of-a-folder'] * 40)}/torch/__init__.py"
    torch = types.ModuleType("torch")
    torch.__file__ = path
    for name in ("torch", "transformers", "accelerate", "peft"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", torch)

    assert safe_text.about("__file__") == {"torch": path}
