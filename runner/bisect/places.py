"""Where the releases of each minor line were cut from main: `environments/places.toml`.

Searches read the file where a clone has no tags; `nox -s history -- --places` writes it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.version import Version

from repromatrix.runner.bisect.repository import Repository, as_version
from repromatrix.runner.environments.development import PackageSources
from repromatrix.runner.errors import Problem, refuse

Places = Mapping[str, Mapping[str, str]]
"""By package and minor line, such as 4.50, the commit of main."""

_HEAD = """\
# The commit of the main branch from which the releases of each minor line were cut.
# Clones without tags are searched by it. `nox -s history -- --places --repo CLONE` adds to it: from
# tags exactly, otherwise from the versions that the commits of main declare.
"""


def line_of(version: str) -> str:
    """Return the minor line of a version: 4.50 of 4.50.3."""
    major, minor, *_ = (*Version(version).release, 0)
    return f"{major}.{minor}"


def read(path: Path) -> Places:
    """Return what the file says, in the order of versions; raises RunnerError."""
    if not path.exists():
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        return {package: _ordered(places) for package, places in content.items()}
    except (ValueError, AttributeError) as error:
        what = f"it cannot be read ({error})"
        raise refuse(Problem(str(path), what, "Take it from the repository again.")) from error


def _ordered(places: Mapping[str, str]) -> dict[str, str]:
    return {line: places[line] for line in sorted(places, key=Version)}


def as_text(places: Places) -> str:
    """Return the text of the file."""
    parts = [_HEAD]
    for package in sorted(places):
        lines = (f'"{line}" = "{at}"\n' for line, at in _ordered(places[package]).items())
        parts.append(f"\n[{package}]\n{''.join(lines)}")
    return "".join(parts)


def with_clone(known: Places, repository: Repository, sources: PackageSources) -> Places:
    """Return the places with those that a clone adds: its tags say them best, then what is known.

    The versions that the commits of main declare come last: where a bump was late, so is the place.
    """
    main = repository.newest_main()
    declared, tagged = dict(_declared(repository, sources, main)), dict(_tagged(repository, main))
    return {**known, sources.package: {**declared, **known.get(sources.package, {}), **tagged}}


def _tagged(repository: Repository, main: str) -> Iterator[tuple[str, str]]:
    """Yield where the first release of each line that has a tag left main."""
    listed = repository.read("for-each-ref", "--format=%(refname:strip=2)", "refs/tags")
    tags = [tag for tag in listed.split() if (version := as_version(tag)) and not version.pre]
    on_main = {*repository.first_parents(main)}
    for tag in sorted(tags, key=Version, reverse=True):  # of a line the oldest stays
        base = (repository.ask("merge-base", f"refs/tags/{tag}", main) or "").strip()
        if base in on_main:
            yield line_of(tag), base


def _declared(
    repository: Repository, sources: PackageSources, main: str
) -> Iterator[tuple[str, str]]:
    """Yield the last commit of each line before the version after it is opened.

    4.56 is cut before 4.57.0.dev0 is declared, 5.0 before 5.0.1.dev0, and a version that main
    declares itself, as peft does, where it does so. A line that main skips has no place: 5.8.0.dev0
    is followed by 5.10.0.dev0. A merge that brings several versions, as into the main branch of a
    fork, says nothing of those between.
    """
    log = ("log", "--first-parent", "--reverse", "--format=%H %P", main, "--", sources.init)
    before: Version | None = None
    for sha, *parents in map(str.split, repository.read(*log).splitlines()):
        opened = as_version(repository.claims(sha, sources))
        if opened is None or opened == before:
            continue
        if not opened.is_devrelease:
            if not opened.micro:
                yield line_of(str(opened)), sha
        elif before is not None:
            minor = opened.minor if opened.micro else opened.minor - 1
            closed = f"{opened.major}.{minor}" if minor >= 0 else line_of(str(before))
            is_next = len(parents) < 2 or closed == line_of(str(before))  # noqa: PLR2004 - a merge
            if opened.micro <= 1 and is_next and before < Version(f"{closed}.0") < opened:
                yield closed, parents[0]
        before = opened
