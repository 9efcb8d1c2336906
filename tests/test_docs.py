"""What the documents say of commands, exit codes, variables and each other is so.

`pytest tests/test_docs.py --regenerate` writes `docs/cli.md`, adds missing rows to
`docs/exit-codes.md`, and writes what commands print into README.md.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import pytest
from programs import finished
from typer.core import TyperArgument, TyperOption
from typer.main import get_command

from repromatrix.runner import cli
from repromatrix.runner.cli.options import app
from repromatrix.runner.errors import ExitCode
from repromatrix.runner.evidence.snapshot import TODAY
from repromatrix.runner.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from typer.core import TyperCommand

DOCS, ROOTS = ROOT / "docs", (ROOT, ROOT / "runner")
README, CLI, EXIT_CODES = ROOT / "README.md", DOCS / "cli.md", DOCS / "exit-codes.md"
CONFIGURATION = DOCS / "configuration.md"
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "cases/README.md")),
    *sorted(DOCS.rglob("*.md")),
]
MADE = (
    ".nox/",
    ".repromatrix/",
    "dist/",
    "reports/site/",
    "reports/own-site/",
    "badge/",
    "feed/",
    "osv/",
    "work/",
)
"""Folders that the program makes, and the site's own."""
LINES, WORDS = 150, 900
FROM_EVIDENCE = {"advise", "audit", "bisect", "diff", "results"}
"""The commands of README.md that answer from published evidence."""
VARIABLE = re.compile(
    r"[A-Z][A-Z0-9]+(?:_[A-Za-z0-9]+)+|PYTHON[A-Z]+|CI|HOME|LANG|PATH|TE?MP|TMPDIR"
)
NO_VARIABLES = {
    *("CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "SC_PAGE_SIZE"),
    "CONFIG_MAPPING",
}
"""Texts of the code that look like environment variables."""

HEAD = """\
# Commands

`nox -s NAME -- …` and `python -m repromatrix NAME …` are the same command.
This page is written by `pytest tests/test_docs.py --regenerate`.
[Exit codes](exit-codes.md) lists how commands end.
"""


def regenerating(config: pytest.Config) -> bool:
    return bool(config.getoption("--regenerate"))


# README.md


def test_the_readme_is_one_screen_and_a_half() -> None:
    text = README.read_text()

    assert len(text.splitlines()) <= LINES
    assert len(text.split()) <= WORDS


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A command of a document with what it prints; one that ends in `…` is shown in part."""

    command: str
    output: str

    @property
    def block(self) -> str:
        """What stands in the document."""
        return f"```console\n$ {self.command}\n{self.output}```\n"

    @property
    def name(self) -> str:
        """The name of the command."""
        found = re.search(r"nox -s (\S+) --", self.command)
        return found[1] if found else ""

    def cut(self, printed: str) -> str:
        """Return as much of what was printed as is shown."""
        if not self.output.endswith("…\n"):
            return printed
        count = len(self.output.splitlines()) - 1
        return "".join([*printed.splitlines(keepends=True)[:count], "…\n"])


SHOWN = [
    Shown(command=command, output=output)
    for command, output in re.findall(r"(?ms)^```console\n\$ (.+?)\n(.*?)^```$", README.read_text())
]
CHECKED = [shown for shown in SHOWN if shown.name in FROM_EVIDENCE]


def test_the_readme_shows_six_commands_with_their_output() -> None:
    assert len(SHOWN) == 6
    assert [shown.name for shown in CHECKED] == ["bisect", "audit", "diff"]
    assert all(shown.output for shown in SHOWN)


@pytest.mark.parametrize("shown", CHECKED, ids=lambda shown: shown.name)
def test_the_readme_shows_what_a_command_prints(shown: Shown, pytestconfig: pytest.Config) -> None:
    typed, _, asked = shown.command.rpartition(" | ")
    given = shlex.split(typed)[1].encode().decode("unicode_escape") if typed else ""
    arguments = shlex.split(asked.removeprefix("nox -s ").replace(" -- ", " ", 1))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = finished(
        [sys.executable, "-m", "repromatrix", *arguments],
        cwd=ROOT,
        env=environ | {TODAY: "2026-12-01"},
        given=given,
    )
    expected = shown.cut(done.stdout)
    if regenerating(pytestconfig):
        text = README.read_text()
        written = Shown(command=shown.command, output=expected)
        README.write_text(text.replace(shown.block, written.block))
        return

    assert shown.output == expected


# docs/cli.md


def commands() -> dict[str, TyperCommand]:
    """Return every command that people see."""
    cli.register("")
    group = get_command(app)
    found: dict[str, TyperCommand] = getattr(group, "commands")  # noqa: B009 - typer has no type
    return {name: command for name, command in found.items() if not command.hidden}


def reference() -> str:
    """Return docs/cli.md as the options are now."""
    return "\n".join([HEAD, *(section(name, command) for name, command in commands().items())])


def section(name: str, command: TyperCommand) -> str:
    rows = [row(one) for one in command.params if isinstance(one, TyperArgument | TyperOption)]
    assert len(rows) == len(command.params)
    table = ["", "| option | default | meaning |", "| --- | --- | --- |", *rows] if rows else []
    return "\n".join([f"## {name}", "", (command.help or "").strip(), *table, ""])


def row(parameter: TyperArgument | TyperOption) -> str:
    cells = (f"`{_spelled(parameter)}`", _default(parameter), _cell(parameter.help or ""))
    return f"| {' | '.join(cells)} |"


def _spelled(parameter: TyperArgument | TyperOption) -> str:
    if parameter.param_type_name == "argument":
        return (parameter.name or "").upper()
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    if getattr(parameter, "is_flag", False):
        return names
    return f"{names} {parameter.metavar or (parameter.name or '').upper()}".replace("|", "\\|")


def _default(parameter: TyperArgument | TyperOption) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    value = value.value if isinstance(value, Enum) else value
    return "" if value in (None, "", False) or value == [] else f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def test_every_command_and_option_is_documented(pytestconfig: pytest.Config) -> None:
    if regenerating(pytestconfig):
        CLI.write_text(reference())
    text = CLI.read_text()
    missing = [
        f"{name} {option}"
        for name, command in commands().items()
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("-") and option not in text
    ]

    assert missing == []
    assert text == reference()


# docs/exit-codes.md


def test_every_exit_code_is_documented(pytestconfig: pytest.Config) -> None:
    before, rows, after = _exit_codes()
    if regenerating(pytestconfig):
        known = {name: meaning for _, name, meaning in rows}
        rows = [(str(number), name, known.get(name, "")) for number, name in _members()]
        lines = [f"| {' | '.join(cells)} |\n" for cells in rows]
        EXIT_CODES.write_text("".join([before, *lines, after]))

    assert [(int(number), name) for number, name, _ in rows] == _members()
    assert [name for _, name, meaning in rows if not meaning.strip()] == []


def _members() -> list[tuple[int, str]]:
    return sorted((int(code), code.name.lower().replace("_", "-")) for code in ExitCode)


def _exit_codes() -> tuple[str, list[tuple[str, str, str]], str]:
    """Return the rows of the table, and what stands before and after it."""
    found = re.fullmatch(r"(?s)(.*\n\| ---: .*?\n)((?:\|[^\n]*\n)*)(.*)", EXIT_CODES.read_text())
    assert found is not None
    rows = re.findall(r"(?m)^\| (\S+) \| (\S+) \| (.*) \|$", found[2])
    return found[1], rows, found[3]


# docs/configuration.md


def named_in_code() -> set[str]:
    """Return every text of the code that is the name of an environment variable."""
    sources = [*(ROOT / "runner").rglob("*.py"), *(ROOT / "sweep").rglob("*.py")]
    sources += [*(ROOT / "tools").rglob("*.py")]
    sources += [*(ROOT / "reports").glob("*.py"), *(ROOT / "reports" / "pages").rglob("*.py")]
    sources += [ROOT / "noxfile.py"]
    # The mappings of transformers are named as variables are.
    named_so = ROOT / "sweep" / "child" / "universe.py"
    texts = {text for path in sources if path != named_so for text in _texts(path)}
    return {text for text in texts if VARIABLE.fullmatch(text)} - NO_VARIABLES


def _texts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_environment_variable_is_documented() -> None:
    documented = {
        name
        for name in re.findall(r"`([^`\s]+)`", CONFIGURATION.read_text())
        if VARIABLE.fullmatch(name)
    }

    assert documented == named_in_code()


# Links


def links(path: Path) -> list[str]:
    text = re.sub(r"(?ms)^```.*?^```$", "", path.read_text())
    return re.findall(r"\]\(([^)\s]+)\)", text)


def anchors(path: Path) -> set[str]:
    """Return what GitHub makes of the headings of a document."""
    text = re.sub(r"(?ms)^```.*?^```$", "", path.read_text())
    headings = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(path: Path) -> Iterable[str]:
    for link in links(path):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        aim = (path.parent / name).resolve() if name else path
        if not aim.exists() or (anchor and anchor not in anchors(aim)):
            yield link


def lost_modules(text: str) -> Iterable[str]:
    """Yield the names of files and folders that do not exist."""
    for name in re.findall(r"`((?:\w+/)+(?:[\w.]+\.(?:py|md|toml|yml|js|css|jsonl))?)`", text):
        if not name.startswith(MADE) and not any((root / name).exists() for root in ROOTS):
            yield name


def lost_names(text: str) -> Iterable[str]:
    """Yield the names that are said to be in a module, and are not."""
    names = r"`(\w+)`(?: (?:and|with) `(\w+)`)?,? in `((?:\w+/)+[\w.]+\.(?:py|js))`"
    for *said, module in re.findall(names, text):
        for path in (root / module for root in ROOTS if (root / module).exists()):
            code = path.read_text()
            yield from (f"{name} in {module}" for name in said if name not in code)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_links_to_and_names_is_there(path: Path) -> None:
    text = path.read_text()

    assert [*broken(path), *lost_modules(text), *lost_names(text)] == []


def test_every_document_is_reached_from_the_readme() -> None:
    reached, waiting = set[str](), [README]
    while waiting:
        path = waiting.pop()
        reached.add(str(path.relative_to(ROOT)))
        aims = ((path.parent / link.partition("#")[0]).resolve() for link in links(path))
        waiting += [
            aim
            for aim in aims
            if aim.suffix == ".md" and aim.exists() and str(aim.relative_to(ROOT)) not in reached
        ]

    assert {str(path.relative_to(ROOT)) for path in DOCUMENTS} - reached == {"CHANGELOG.md"}
