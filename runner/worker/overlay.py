"""A tree of sources in front of what is installed, its compiled files kept by content.

Compiled files lie outside of the tree: what is left of a deleted package must not look like one,
and a checkout is not ours to write to. That holds for every way to load a file of the tree:
transformers loads its own `__init__.py` a second time, by its location.
"""

from __future__ import annotations

import hashlib
import sys
from importlib.machinery import FileFinder, SourceFileLoader
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType


class Overlay(TypedDict):
    """The folder to put in front of the path, and where its compiled files are kept."""

    path: str
    kept: str


_kept: list[str] = []
_plain = SourceFileLoader.get_code


class _ByContent(SourceFileLoader):
    """Loads a source file; its compiled file is valid while the content is the same."""

    def path_stats(self, path: Any) -> Mapping[str, Any]:  # noqa: ANN401 - as it is declared
        # Python checks a compiled file by the time and size of its source. Commits that are checked
        # out within one second and keep a file's size would all run the first one's bytecode; so a
        # digest of the source takes the place of the time.
        source = self.get_data(path)
        digest = int.from_bytes(hashlib.sha256(source).digest()[:4], "little")
        return {"mtime": digest, "size": len(source)}

    def get_code(self, fullname: str) -> CodeType | None:
        before, sys.pycache_prefix = sys.pycache_prefix, _kept[0]
        try:
            return _plain(self, fullname)
        finally:
            sys.pycache_prefix = before


def put_in_front(front: Overlay) -> None:
    """Let everything that is imported from now on come from a tree, where the tree has it."""
    root = front["path"]
    finder = FileFinder.path_hook((_ByContent, [".py"]))

    def hook(path: str) -> Any:  # noqa: ANN401 - whatever finder the standard hook makes
        if path != root and not path.startswith(root + "/"):
            raise ImportError
        return finder(path)

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        if loader.path.startswith(root + "/"):
            return _ByContent(loader.name, loader.path).get_code(fullname)
        return _plain(loader, fullname)

    _kept[:] = [front["kept"]]
    SourceFileLoader.get_code = get_code  # type: ignore[assignment,method-assign]
    sys.path_hooks.insert(0, hook)
    sys.path.insert(0, root)
