"""Addresses of the issue forms of the repository, filled in as far as a page knows the answers."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode


def wrong_cell(source: str, about: Mapping[str, str]) -> str:
    """Return the form for a wrong cell; `source` is the address of the repository.

    The keys of `about` are the ids of fields: `case`, `release`, `precision`, `workaround`.
    """
    subject = " on ".join(about[key] for key in ("case", "release") if key in about)
    return _form(source, "wrong-cell", f"Wrong cell: {subject}", about)


def new_case(source: str) -> str:
    """Return the form for a bug without a case."""
    return _form(source, "new-case", "New case: ", {})


def _form(source: str, name: str, title: str, fields: Mapping[str, str]) -> str:
    query = urlencode({"template": f"{name}.yml", "title": title, **fields}, errors="replace")
    return f"{source}/issues/new?{query}"
