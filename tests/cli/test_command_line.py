"""The command line: which module a command comes from."""

from __future__ import annotations

from repromatrix.runner.cli import COMMANDS, register
from repromatrix.runner.cli.options import app


def test_every_command_stands_in_the_module_of_its_name() -> None:
    register("")
    found: dict[str, str] = {}
    for command in app.registered_commands:
        assert command.callback is not None
        module = command.callback.__module__.removeprefix("repromatrix.runner.cli.")
        found[command.name or ""] = module

    assert found == {name: name.replace("-", "_") for name in COMMANDS}
    assert tuple(found) == COMMANDS
