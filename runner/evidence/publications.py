"""The acts of publishing: `publications.toml`, one line each."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.errors import Fault, refuse
from runner.evidence.damage import addressed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT = 1
WRITTEN = "what `nox -s publish` writes"
"""What is allowed in a published set."""


def _toml(text: str) -> str:
    """Quote a string; TOML knows no surrogate pairs, in which JSON writes what is beyond ASCII."""
    return json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """One act of publishing: when, on what, with which torch, and the commit of main."""

    name: str
    date: str
    hardware: str
    torch_build: str
    python: str
    main: str

    def line(self) -> str:
        """Return it as one line of `publications.toml`."""
        facts = {
            "date": self.date,
            "hardware": self.hardware,
            "torch": self.torch_build,
            "python": self.python,
            "main": self.main,
        }
        inside = ", ".join(f"{key} = {_toml(value)}" for key, value in facts.items())
        return f"{_toml(self.name)} = {{ {inside} }}\n"


def read_publications(folder: Path) -> dict[str, Publication]:
    """Return the publications by name; raises RunnerError when they are of a newer format."""
    path = folder / "publications.toml"
    if not path.exists():
        return {}
    with addressed(path.name, WRITTEN):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        if table.get("format", 0) > FORMAT:
            found, allowed = f"format {table['format']}", f"format {FORMAT} or older"
            raise refuse(Fault(where=path.name, found=found, allowed=allowed, remedy="Update."))
        return {name: _publication(name, line) for name, line in table["publications"].items()}


def _publication(name: str, line: Mapping[str, str]) -> Publication:
    facts = (line["date"], line["hardware"], line["torch"], line["python"], line["main"])
    if not all(isinstance(fact, str) for fact in facts):
        message = "something that is no text where a text belongs"
        raise TypeError(message)
    date, hardware, torch, python, main = facts
    return Publication(
        name=name, date=date, hardware=hardware, torch_build=torch, python=python, main=main
    )
