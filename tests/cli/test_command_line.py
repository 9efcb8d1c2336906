"""The command line: which module a command comes from."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from repromatrix.commands import COMMANDS
from repromatrix.runner.cli import register
from repromatrix.runner.cli.options import app
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ASCII = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_every_command_stands_in_the_module_of_its_name() -> None:
    register("")
    found: dict[str, str] = {}
    for command in app.registered_commands:
        assert command.callback is not None
        module = command.callback.__module__
        found[command.name or ""] = module

    assert [*found.items()] == [(command.name, command.module) for command in COMMANDS]


def test_what_is_printed_does_not_depend_on_the_locale(tmp_path: Path) -> None:
    listed = tmp_path / "ünï漢字.txt"
    listed.write_text("transformers==4.50.3  # ünï漢字\n", encoding="utf-8")
    command = [sys.executable, "-m", "repromatrix", "audit", str(listed), "--precision", "bf16"]
    said = []
    for locale in (ASCII, {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}):
        environ = {**os.environ, "PYTHONPATH": str(ROOT), **locale}
        done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, check=False)
        said.append((done.returncode, done.stdout.decode(), done.stderr.decode()))

    assert said[0] == said[1]
    assert said[0][0] == 1
    assert "ünï漢字.txt" in said[0][1]
