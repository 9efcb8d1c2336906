"""Importing, once and before any fork, what the cases of an environment import anyway."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any, TypedDict


class PreloadRequest(TypedDict):
    """Modules to import in order, and per package the names that cases take from it."""

    modules: list[str]
    names: dict[str, list[str]]


class Unsafe(Exception):  # noqa: N818 - it says what the process is now, not what went wrong
    """An import failed and left submodules behind: this process may not be forked any more."""

    def __init__(self, what: str, why: str) -> None:
        """Keep what failed, so that the next attempt leaves it out."""
        super().__init__(f"{what}: {why}")
        self.what = what
        self.why = why


def preload(wanted: PreloadRequest, refused: list[str]) -> None:
    """Import what is wanted, less what failed before.

    Raises Unsafe at the first failure: the caller starts again in a new process without it,
    so that no half-imported package is visible to any case.
    """
    for module in wanted["modules"]:
        if module not in refused:
            _import(module)
    for module, names in wanted["names"].items():
        if module in sys.modules:
            _resolve(module, names, refused)


def _import(module: str) -> None:
    """Import a module; one that this environment does not have is the case's own finding."""
    try:
        if _is_there(module):
            importlib.import_module(module)
    except BaseException as error:
        raise Unsafe(module, f"{type(error).__name__}: {error}"[:500]) from error


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as error:  # finding a module imports the packages above it
        if error.name and f"{module}.".startswith(f"{error.name}."):
            return False
        raise


def _resolve(module: str, names: list[str], refused: list[str]) -> None:
    found: Any = sys.modules[module]
    offered = set(dir(found))
    for name in names:
        full = f"{module}.{name}"
        # A name that this release does not have is the case's own finding, not ours.
        if name not in offered or full in refused:
            continue
        try:
            getattr(found, name)
        except BaseException as error:
            raise Unsafe(full, f"{type(error).__name__}: {error}"[:500]) from error
