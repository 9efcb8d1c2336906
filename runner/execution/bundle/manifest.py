"""What a bundle is for, and what of each environment lies in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from repromatrix.runner.errors import InvalidValue, refuse

NAME = "manifest.json"
TREES = "trees"
CONTENT = "packages"
TOOLS = "tools"
OLDEST = (3, 11)
"""The runner's own Python; what it measures with may not be older, since both are one there."""

_PYTHON = re.compile(r"3\.(\d+)")
_PLATFORM = re.compile(r"(?P<machine>x86_64|aarch64)-manylinux(?:_2_(?P<glibc>\d+)|2014)")
_GLIBC_2014 = 17

Tree = dict[str, str]
"""The files of an environment's packages: path to the name of the content."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The Python and the platform that a bundle is for."""

    python: str
    platform: str

    @property
    def cannot_have(self) -> str:
        """How an error about a package that has no wheel for it begins."""
        return f"its packages cannot be had for Python {self.python} on {self.platform}"

    @property
    def facts(self) -> dict[str, object]:
        """What the script that runs there holds its machine against; raises RunnerError."""
        found = _PLATFORM.fullmatch(self.platform)
        if found is None:
            expected = "a platform as uv names it, such as x86_64-manylinux_2_28"
            raise refuse(InvalidValue("--platform", self.platform, expected))
        minor = _PYTHON.fullmatch(self.python)
        if minor is None or (3, int(minor[1])) < OLDEST:
            expected = "3.11 or newer, such as 3.12"
            raise refuse(InvalidValue("--python-version", self.python, expected))
        return {
            "python": [3, int(minor[1])],
            "machine": found["machine"],
            "glibc": [2, int(found["glibc"] or _GLIBC_2014)],
        }


def manifest(target: Target, environments: Mapping[str, Tree]) -> str:
    """Return the text of a manifest."""
    about = {"platform": target.platform, **target.facts, "environments": list(environments)}
    return json.dumps(about, indent=1) + "\n"


def carried(root: Path) -> tuple[str, ...]:
    """Return the environments whose packages lie in an unpacked bundle."""
    return tuple(json.loads((root / NAME).read_text())["environments"])


def tree(root: Path, name: str) -> Tree:
    """Return the files of an environment of an unpacked bundle."""
    found: Tree = json.loads((root / TREES / f"{name}.json").read_text())
    return found


def content(root: Path, name: str) -> Path:
    """Return where a content lies in an unpacked bundle."""
    return root / CONTENT / name[:2] / name[2:]
