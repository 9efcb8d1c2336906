"""What a package declares that it needs, read from its sources without running them. Pure.

`pyproject.toml` is read as TOML and `setup.py` as a syntax tree: what a `setup.py` would compute
when it is run is never computed.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable, Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

FILES = ("pyproject.toml", "setup.py")
"""The files that declare requirements."""
_KEY = "install_requires"


class UndeclaredError(Exception):
    """Nothing that can be read without running it says what the package needs."""

    def __init__(self, *, where: str, why: object) -> None:
        """Say in which file, and why it cannot be read."""
        super().__init__(f"{where} does not say what it needs: {why}")


def declared(read: Callable[[str], str | None]) -> tuple[Requirement, ...]:
    """Return the requirements of a package, by name; extras are left out.

    `read` returns the text of a file of `FILES`, or None where there is none. Raises
    UndeclaredError.
    """
    texts = _in_pyproject(read("pyproject.toml") or "")
    if texts is None:
        texts = _in_setup(read("setup.py") or "")
    try:
        requirements = map(Requirement, texts)
        return tuple(sorted(requirements, key=lambda needed: canonicalize_name(needed.name)))
    except InvalidRequirement as error:
        raise UndeclaredError(where="the list of requirements", why=error) from error


def _in_pyproject(text: str) -> list[str] | None:
    """Return what `[project]` lists; None where it leaves that to `setup.py`."""
    try:
        project = tomllib.loads(text).get("project", {})
    except tomllib.TOMLDecodeError as error:
        raise UndeclaredError(where="pyproject.toml", why=error) from error
    dependencies = project.get("dependencies") if isinstance(project, dict) else None
    return dependencies if isinstance(dependencies, list) else None


def _in_setup(text: str) -> list[str]:
    """Return the list that `setup()` is given, or that the module assigns to `install_requires`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UndeclaredError(where="setup.py", why=error) from error
    assigned = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    given = [
        keyword.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == _KEY
    ]
    wanted = assigned.get(_KEY, given[0] if given else None)
    if not isinstance(wanted, ast.List):
        raise UndeclaredError(where="setup.py", why=f"{_KEY} is not a list")
    return [_read_item(item, assigned) for item in wanted.elts]


def _read_item(item: ast.expr, assigned: dict[str, ast.expr]) -> str:
    """Return `"name>=1"`, or what `deps["name"]` finds in a list of such texts."""
    if isinstance(item, ast.Constant) and isinstance(item.value, str):
        return item.value
    if isinstance(item, ast.Subscript) and isinstance(item.slice, ast.Constant):
        name = canonicalize_name(str(item.slice.value))
        if text := next((text for text in _texts(assigned) if _name(text) == name), ""):
            return text
    raise UndeclaredError(where="setup.py", why=f"{_KEY} holds {ast.unparse(item)}")


def _texts(assigned: dict[str, ast.expr]) -> Iterator[str]:
    for value in assigned.values():
        if isinstance(value, ast.List):
            for item in value.elts:
                if isinstance(item, ast.Constant) and isinstance(item.value, str):
                    yield item.value


def _name(text: str) -> str:
    try:
        return canonicalize_name(Requirement(text).name)
    except InvalidRequirement:
        return ""
