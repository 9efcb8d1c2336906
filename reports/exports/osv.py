"""Derived ranges as entries of the Open Source Vulnerability format, for tools that read it.

A bug counts until a release was measured to pass: a gap counts as affected, never as safe.
Names begin with `x_`, as those of a database do that nobody aggregates.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repromatrix.reports.text import link_to, page_of, visible
from repromatrix.reports.view import Survey
from repromatrix.runner.judging.ranges import Affected, Interval
from repromatrix.runner.model.case import PLAIN, Case, CaseKind
from repromatrix.runner.model.outcomes import Device, Precision

if TYPE_CHECKING:
    from repromatrix.reports.site import Published

VERSION = "1.7.5"
_OLDER = "A range from 0 fails on the oldest version that was measured; nothing older was."


INDEX, ARCHIVE = "osv/index.json", "osv/all.zip"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The oldest time that an archive can name: the time of drawing would change its bytes."""


def entries(
    survey: Survey, published: Published, settings: Mapping[str, Sequence[str]]
) -> tuple[dict[str, Any], ...]:
    """Return an entry for every bug that fails on some release; none before a publication."""
    return tuple(
        entry
        for case in survey.cases.values()
        for entry in entries_of(survey, case, published, settings[case.name])
    )


def path_of(entry: Mapping[str, Any]) -> str:
    """Return the file of an entry, from the first page."""
    return f"osv/{entry['id']}.json"


def files(entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, bytes]]:
    """Yield a file for each entry, an index, and an archive of all entries."""
    contents = {path_of(one): f"{json.dumps(one, indent=1)}\n".encode() for one in entries}
    yield from contents.items()
    index = [
        {
            "id": one["id"],
            "modified": one["modified"],
            "summary": one["summary"],
            "packages": sorted({affected["package"]["name"] for affected in one["affected"]}),
            "file": path_of(one).removeprefix("osv/"),
        }
        for one in entries
    ]
    yield INDEX, f"{json.dumps(index, indent=1)}\n".encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, content in contents.items():
            member = zipfile.ZipInfo(path.removeprefix("osv/"), _EPOCH)
            member.create_system = 3  # Unix, whatever system draws the site
            member.external_attr = 0o644 << 16
            archive.writestr(member, content, zipfile.ZIP_DEFLATED)
    yield ARCHIVE, packed.getvalue()


def entries_of(
    survey: Survey, case: Case, published: Published, setting: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield an entry for each bug of a case; none where it never fails or was never published."""
    rows = (row.seen for row in survey.of_case(case.name))
    sources = {row.source for row in rows if row.outcome.is_evidence}
    known = published.publications
    dates = sorted(known[source].date for source in sources if source in known)
    if case.block.kind is not CaseKind.BUG or not dates:
        return
    titles = dict.fromkeys([case.block.title, *map(case.title_of, case.block.fails)])
    for number, title in enumerate(titles, start=1):
        affected = _affected(survey, case, title)
        if not affected:
            continue
        name = case.name.replace("_", "-")
        about = f"The script of this case meets it, which is about another bug: {case.block.title}."
        about = case.docstring.strip() if number == 1 else about
        yield {
            "schema_version": VERSION,
            "id": f"x_REPROMATRIX-{name}" if number == 1 else f"x_REPROMATRIX-{name}-{number}",
            "published": f"{dates[0]}T00:00:00Z",
            "modified": f"{dates[-1]}T00:00:00Z",
            "summary": visible(title),
            "details": visible("\n\n".join([about, *_older(affected), *setting])),
            "affected": affected,
            "references": list(_references(case, title, published)),
            "database_specific": {
                "case": case.name,
                "area": case.block.area,
                "models": list(case.block.models),
                **({"same_code": list(case.block.same_code)} if case.block.same_code else {}),
                "trigger": list(case.block.triggers),
                "symptom": list(case.block.symptoms),
                "measured": list(setting),
                **({"simulates": case.block.simulates} if case.block.simulates else {}),
            },
        }


def _older(affected: Sequence[Mapping[str, Any]]) -> list[str]:
    """Explain the event `0`: the format cannot say that older versions were not measured."""
    events = [event for one in affected for event in one["ranges"][0]["events"]]
    return [_OLDER] if {"introduced": "0"} in events else []


def _affected(survey: Survey, case: Case, title: str) -> list[dict[str, Any]]:
    """Return what a bug affects; precisions that are affected alike share one object."""
    alike: dict[str, dict[str, Any]] = {}
    for key in survey.series(case.name):
        workaround, device, precision = key
        for bug in survey.affected(case.name, key) if workaround == PLAIN else ():
            if bug.title != title:
                continue
            events = [event for span in bug.intervals for event in _events(span)]
            ranges = [
                {"type": "ECOSYSTEM", "events": events},
                *_git_range(survey, case, bug, (device, precision)),
            ]
            purl = f"pkg:pypi/{bug.package}"
            hit: dict[str, Any] = {
                "package": {"ecosystem": "PyPI", "name": bug.package, "purl": purl},
                "ranges": ranges,
                "versions": [version for span in bug.intervals for version in span.failing],
                "ecosystem_specific": {"precisions": [], "device": device.value},
            }
            first = alike.setdefault(json.dumps(hit), hit)
            first["ecosystem_specific"]["precisions"].append(precision.value)
    return [*alike.values()]


def _git_range(
    survey: Survey, case: Case, bug: Affected, measured: tuple[Device, Precision]
) -> Iterator[dict[str, Any]]:
    """Yield the range of commits: only where every break and fix was pinned to one."""
    rows = [
        row
        for row in survey.commits.values()
        if (row.case, row.workaround, row.device, row.precision) == (case.name, PLAIN, *measured)
        and (row.at if row.change == "break" else row.before) in bug.failing
    ]
    kinds = {"break": "introduced", "fix": "fixed"}
    events = {(kinds[row.change], row.commit): row.date for row in rows}
    if not all(row.commit and row.package == bug.package for row in rows):
        return
    if "introduced" in {kind for kind, _ in events}:
        yield {
            "type": "GIT",
            "repo": rows[0].repository,
            "events": [{kind: sha} for kind, sha in sorted(events, key=events.__getitem__)],
        }


def _events(interval: Interval) -> Iterator[dict[str, str]]:
    """Yield where an interval begins and ends; `0` where nothing older is known to be safe."""
    yield {"introduced": interval.first or "0"}
    if interval.fixed:
        yield {"fixed": interval.fixed}
    if interval.last:
        yield {"last_affected": interval.last}


def _references(case: Case, title: str, published: Published) -> Iterator[dict[str, str]]:
    described = [entry for entry in case.block.fails if case.title_of(entry) == title]
    fixes = dict.fromkeys(entry.fixed_by for entry in described if entry.fixed_by)
    found = [("REPORT", report) for report in case.block.reports]
    found += [("FIX", fix) for fix in fixes]
    if published.base_url:
        found.append(("EVIDENCE", f"{published.base_url}{page_of(case.name)}"))
    for kind, address in found:
        if link_to(address).href:
            yield {"type": kind, "url": address}
