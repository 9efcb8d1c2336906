"""What people told pip, handed on to uv, which does not read pip's configuration."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

from runner import processes

if TYPE_CHECKING:
    from collections.abc import Mapping

# pip's option to uv's variable; several values become one, joined as uv wants them.
_VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "cert": ("SSL_CERT_FILE", " "),
    "client-cert": ("SSL_CLIENT_CERT", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "keyring-provider": ("UV_KEYRING_PROVIDER", " "),
}
_OLDER = {"UV_DEFAULT_INDEX": "UV_INDEX_URL", "UV_INDEX": "UV_EXTRA_INDEX_URL"}
"""uv's own older spellings, which a user may still set."""
_SECTIONS = ("global", "install", ":env:")
"""Later ones win, as in pip."""


def configured() -> dict[str, str]:
    """Ask pip for its whole configuration: files, environment and all; empty without pip."""
    answer = processes.finish([sys.executable, "-m", "pip", "config", "list"], seconds=60)
    if answer.code != 0:
        return {}
    return parse(answer.out)


def parse(listing: str) -> dict[str, str]:
    """Read the lines of `pip config list`; the section nearest to the command wins."""
    found: dict[str, str] = {}
    for section in _SECTIONS:
        for line in listing.splitlines():
            key, _, value = line.partition("=")
            name, _, option = key.rpartition(".")
            if name == section and value:
                found[option] = str(ast.literal_eval(value))
    return found


def for_uv(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return uv's environment: the given one, with pip's settings where uv has none."""
    result = dict(environ)
    result.pop("PYTHONDONTWRITEBYTECODE", None)
    # Several indexes behave as with pip: the best version of all of them.
    result.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    result.setdefault("UV_NO_PROGRESS", "1")
    for option, (variable, separator) in _VARIABLES.items():
        if option in settings and not {variable, _OLDER.get(variable)} & set(environ):
            result[variable] = separator.join(settings[option].split())
    if "proxy" in settings:
        result.setdefault("ALL_PROXY", settings["proxy"])
    return result


def options_for_uv(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return what uv takes as an option only: it has no variable for pip's no-index."""
    refused = settings.get("no-index", "").lower() in {"1", "true", "yes", "on"}
    return ("--no-index",) if refused else ()
