"""The answer of `advise` in words, and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from repromatrix.runner.audit.advice import Advice, Exclusion, ReleaseStanding
from repromatrix.runner.audit.hits import Hit, Upgrade
from repromatrix.runner.audit.render import (
    by_case,
    configured,
    evidence,
    listed,
    settings_of,
    shared,
    snapshot_of,
    spot_names,
    spots_of,
)
from repromatrix.runner.audit.settings import AuditTerms
from repromatrix.runner.document import Code, Document, Fact, Line, Listing, Paragraph, Part
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Reading
from repromatrix.runner.model.packages import TRANSFORMERS
from repromatrix.runner.text import first_few, plural, shorten

_USUAL = AuditTerms()
_WIDE = 80
_FEW = 3
_MOST = 6


def document(advice: Advice, terms: AuditTerms = _USUAL) -> Document:
    """Return the answer as a document."""
    first, *rest = _answer(advice)
    both = [*advice.hits, *(advice.ours.hits if advice.ours else ())]
    return Document(
        headline=first,
        parts=[
            Paragraph(rest),
            *_bugs(advice),
            Paragraph(
                [*_unknown(advice), *_near(advice), *shared(advice.there), *_uncounted(advice)]
            ),
            *([moved(advice.move, both)] if advice.move else []),
            *_apart(advice),
            *_contradicted(advice),
            *_clauses(advice),
            *_missing(advice),
            Paragraph([*evidence(advice.there), *configured(terms)]),
        ],
        data=_data(advice, terms),
    )


def _answer(advice: Advice) -> Iterator[Line]:
    cases = plural(len(by_case(advice.spots)), "case")
    what = f"{cases}, {' '.join(advice.question.precisions)}"
    best = advice.named
    if best is None:
        is_open = any(standing.unknown for standing in advice.standings)
        none = "Not enough evidence: no release is measured on" if is_open else "No release can run"
        yield f"{none} any of {what}."
        return
    if best.good:
        yield f"{best.release} is the newest release on which all pass: {what}."
    else:
        bugs = plural(len(by_case(best.failing)), "known bug")
        unknown = f" and {plural(len(best.unknown), 'cell')} unknown" if best.unknown else ""
        yield f"{best.release} has the fewest known bugs: {bugs}{unknown}, of {what}."
    if best.not_applicable:
        yield f"Not applicable there: {listed(best.not_applicable)}."
    yield Code(f"transformers{advice.specifier}")
    if advice.packages:
        others = ", ".join(f"{name} {version}" for name, version in advice.packages.items())
        yield f"Measured there with {others}, which these cases also depend on."


def _bugs(advice: Advice) -> Iterator[Listing]:
    """Yield the known bugs of the named release by title, each with its best workaround."""
    if advice.named is None or not advice.hits:
        return
    by_stem: dict[str, list[Hit]] = {}
    for hit in advice.hits:
        by_stem.setdefault(hit.case.stem, []).append(hit)
    entries: list[Line | Listing] = []
    for hit, *others in [*by_stem.values()][:_MOST]:
        works = [
            f"works there: {remedy.name}{' (disables the feature)' if remedy.skips else ''}:"
            f" {shorten(remedy.says, _WIDE)}"
            for remedy in hit.remedies[:1]
        ]
        precisions = " ".join(cell.precision for cell in hit.stands)
        also = "".join(f", [{other.case.variant}]" for other in others)
        title = f"{shorten(hit.title, _WIDE)} ({hit.case.name}{also}, {precisions})"
        entries.append(Listing(title, works) if works else title)
    if len(by_stem) > _MOST:
        entries.append(f"{len(by_stem) - _MOST} more; `--format json` lists all")
    yield Listing(f"Known bugs of {advice.named.release}:", entries)


def _unknown(advice: Advice) -> Iterator[str]:
    if advice.named and advice.named.unknown:
        yield f"Unknown there, which counts as a bug: {listed(advice.named.unknown)}."


def _near(advice: Advice) -> Iterator[Line]:
    if advice.near and advice.ours and advice.near != advice.named:
        ours = advice.ours.installed.version(TRANSFORMERS)
        bad = advice.near.bad
        what = f"{plural(bad, 'cell')} not known to pass" if bad else "all pass"
        yield (f"Nearer to {ours}: ", Code(f"transformers=={advice.near.release}"), f" ({what}).")


def moved(upgrade: Upgrade, hits: Iterable[Hit]) -> Listing:
    """Return what a change of versions breaks, mends and leaves unknown.

    `hits` are the known bugs on both sides of it.
    """
    titles = {hit.case.name: shorten(hit.title, _WIDE) for hit in hits}
    groups = {
        "breaks": (*upgrade.breaks, *upgrade.brings),
        "fails, and was unknown": upgrade.doubts,
        "mends": upgrade.heals,
    }
    lines: list[Line] = []
    for verb, spots in groups.items():
        cases = [f"{titles[name]} ({name}, {its})" for name, its in by_case(spots).items()]
        lines += [f"{verb}: {case}" for case in first_few(cases, _MOST)]
    kept, unknown = len(by_case(upgrade.keeps)), len(upgrade.unknown)
    rest = f"keeps {plural(kept, 'known bug')}; {plural(unknown, 'cell')} unknown (not a pass)"
    return Listing(f"This change of versions, to transformers {upgrade.release}:", [*lines, rest])


def _uncounted(advice: Advice) -> Iterator[str]:
    if advice.uncounted:
        features = [f"{name} {number}" for name, number in advice.uncounted.items()]
        shown = first_few(features, _MOST, "more features")
        yield f"Not counted, add `--feature`: {', '.join(shown)}."


def _clauses(advice: Advice) -> Iterator[Listing]:
    facts = [Fact(Code(each.clause), _why(each)) for each in advice.exclusions]
    shown = facts if len(facts) <= _MOST else [*facts[: _FEW - 1], facts[-1]]
    more = [f"{len(facts) - len(shown)} more clauses"] if len(facts) > len(shown) else []
    yield Listing("", [*shown, *more])


def _apart(advice: Advice) -> Iterator[Listing]:
    """Yield what is known of cases that no release by itself can run."""
    if any(standing.passing or standing.failing for standing in advice.apart):
        lines: list[Line] = []
        for each in advice.apart:
            groups = {"fails": each.failing, "passes": each.passing, "unknown": each.unknown}
            clauses = [f"{word} {listed(spots)}" for word, spots in groups.items() if spots]
            lines.append(f"{each.release}: {'; '.join(clauses) or 'not applicable'}")
        yield Listing("Cases that no release by itself can run:", lines)


def _contradicted(advice: Advice) -> Iterator[Part]:
    """Yield the pairs that fail on releases that the specifier allows, and what passes."""
    if not advice.contradicted or advice.named is None:
        return
    names = " or ".join(advice.packages)
    yield Listing(
        f"That alone is not enough: with another {names}, releases that it allows fail:",
        [f"{cells}: {error}" for cells, error in _cited(advice.contradicted)],
    )
    pins = " ".join(f"{name}=={version}" for name, version in advice.packages.items())
    together = Code(f"transformers=={advice.named.release} {pins}")
    passes = "Measured to pass together: " if advice.named.good else "Measured together: "
    yield Paragraph([(passes, together)])


def _cited(rows: Sequence[Observation]) -> Iterator[tuple[str, str]]:
    """Yield the cells of one case, precision and error together, with their environments."""
    environments: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        cells = f"{row.cell.case} {row.cell.precision} {row.outcome} in"
        error = shorten(_error(row) or "", _WIDE)
        environments.setdefault((cells, error), []).append(row.cell.environment)
    for (cells, error), names in environments.items():
        yield f"{cells} {', '.join(names)}", error


def _error(row: Observation) -> str | None:
    return None if row.outcome.reading is Reading.GOOD else row.headline


def _why(exclusion: Exclusion) -> str:
    """Cite the cells that fail on what a clause keeps out, or those that pass beside it."""
    cells = "; ".join(
        f"{where}: {error}" if error else where for where, error in _cited(exclusion.cites)
    )
    if exclusion.failing:
        return cells
    if not exclusion.releases:
        side = {">": "older", "<": "newer"}.get(exclusion.clause[0], "else")
        return f"nothing {side} is measured; {cells}"
    silent = exclusion.releases[0]
    if silent.unknown:
        return f"{silent.release}: not enough evidence, {listed(silent.unknown)}; {cells}"
    return f"{silent.release}: no chosen case, or no such model, is there; {cells}"


def _missing(advice: Advice) -> Iterator[Listing]:
    if not advice.undecided:
        return
    names = [standing.release for standing in advice.undecided]
    shown = ", ".join(names if len(names) <= _FEW else [names[0], "…", names[-1]])
    title = f"Not enough evidence for {plural(len(names), 'newer release')} ({shown}). Run:"
    yield Listing(title, [Code(_command(advice.undecided))])


def _command(undecided: Sequence[ReleaseStanding]) -> str:
    spots = [spot for standing in undecided for spot in standing.unknown]
    cases = ",".join(dict.fromkeys(spot.case for spot in spots))
    precisions = ",".join(sorted({str(spot.precision) for spot in spots}))
    releases = ",".join(standing.release for standing in undecided)
    return (
        f"nox -s matrix -- --case {cases} --release {releases}"
        f" --precision {precisions} --workaround none"
    )


def _data(advice: Advice, terms: AuditTerms) -> dict[str, Any]:
    """Return the answer for a program; keys and values are a contract."""
    best = advice.named
    return {
        "cases": list(by_case(advice.spots)),
        "shared-code": advice.there.by_shared_code,
        "precisions": list(map(str, advice.question.precisions)),
        "device": str(advice.question.device),
        "newest": advice.newest.release if advice.newest else None,
        "fewest-failing": _standing(best) if best and not best.good else None,
        "release": _standing(best) if best else None,
        "known-bugs": [_bug(hit) for hit in advice.hits],
        "near": _standing(advice.near) if advice.near else None,
        "move": spots_of(advice.move) if advice.move else None,
        "not-counted": dict(advice.uncounted),
        "specifier": f"transformers{advice.specifier}" if best else None,
        "within": list(advice.within),
        "packages": dict(advice.packages),
        "contradicted-by": [
            {**_cell(row), "packages": dict(taken_apart(row.cell.environment).changed)}
            for row in advice.contradicted
        ],
        "exclusions": [
            {
                "clause": exclusion.clause,
                "releases": [standing.release for standing in exclusion.releases],
                "why": _why(exclusion),
                "cites": list(map(_cell, exclusion.cites)),
            }
            for exclusion in advice.exclusions
        ],
        "not-enough-evidence": [standing.release for standing in advice.undecided],
        "run": _command(advice.undecided) if advice.undecided else None,
        "releases": list(map(_standing, advice.standings)),
        "apart": list(map(_standing, advice.apart)),
        "snapshot": snapshot_of(advice.there),
        "settings": settings_of(terms),
        "measured-on": {"torch": list(advice.there.torch), "python": list(advice.there.python)},
        "exit": int(advice.code),
    }


def _bug(hit: Hit) -> dict[str, Any]:
    return {
        "case": hit.case.name,
        "title": hit.title,
        "precisions": [str(cell.precision) for cell in hit.stands],
        "workarounds": [
            {"name": remedy.name, "says": remedy.says, "skips": remedy.skips}
            for remedy in hit.remedies
        ],
    }


def _cell(row: Observation) -> dict[str, Any]:
    return {
        "case": row.cell.case,
        "environment": row.cell.environment,
        "precision": str(row.cell.precision),
        "outcome": str(row.outcome),
        "error": _error(row),
        "source": row.source,
    }


def _standing(standing: ReleaseStanding) -> dict[str, Any]:
    return {
        "release": standing.release,
        "passing": spot_names(standing.passing),
        "failing": spot_names(standing.failing),
        "not-applicable": spot_names(standing.not_applicable),
        "unknown": spot_names(standing.unknown),
    }
