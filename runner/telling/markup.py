"""Markdown that other people's pages show as it was meant."""

from __future__ import annotations


def in_table(found: str) -> str:
    """Return a text that a cell of a table can hold, between backticks."""
    return found.replace("|", "\\|").replace("`", "'").replace("\n", " ")


def escaped(said: str) -> str:
    """Return a sentence whose signs no page takes for markup."""
    for sign in "*_`|":
        said = said.replace(sign, f"\\{sign}")
    return said.replace("<", "&lt;")


def with_command(sentence: str) -> str:
    """Return a sentence whose signs no page takes for markup, its command between backticks."""
    said, told, command = sentence.partition("nox -s ")
    return f"{escaped(said)}`{told}{command}`" if told else escaped(said)
