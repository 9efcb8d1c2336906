"""The command line: which module a command comes from."""

from __future__ import annotations

from runner.cli import COMMANDS, register
from runner.cli.options import app


def test_every_command_is_found_in_the_module_that_registers_it() -> None:
    register("")
    found: dict[str, list[str]] = {}
    for command in app.registered_commands:
        assert command.callback is not None
        module = command.callback.__module__.removeprefix("runner.cli.")
        name = command.name or command.callback.__name__.replace("_", "-")
        found.setdefault(module, []).append(name)

    assert {module: tuple(names) for module, names in found.items()} == COMMANDS
