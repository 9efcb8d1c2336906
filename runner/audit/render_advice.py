"""The answer of `advise` in words, and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from repromatrix.runner.audit.advice import Advice, Exclusion, ReleaseStanding
from repromatrix.runner.audit.render import (
    by_case,
    configured,
    evidence,
    listed,
    settings_of,
    shared,
    snapshot_of,
    spot_names,
)
from repromatrix.runner.audit.settings import AuditTerms
from repromatrix.runner.document import Code, Document, Fact, Line, Listing, Paragraph, Part
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Reading
from repromatrix.runner.text import plural, shorten

_USUAL = AuditTerms()
_WIDE = 80
_FEW = 3


def document(advice: Advice, terms: AuditTerms = _USUAL) -> Document:
    """Return the answer as a document."""
    first, *rest = _answer(advice)
    excluded = [Fact(Code(each.clause), _why(each)) for each in advice.exclusions]
    return Document(
        headline=first,
        parts=[
            Paragraph(rest),
            Paragraph([*shared(advice)]),
            *_apart(advice),
            *_contradicted(advice),
            Listing("", excluded),
            *_missing(advice),
            Paragraph([*evidence(advice), *configured(terms)]),
        ],
        data=_data(advice, terms),
    )


def _answer(advice: Advice) -> Iterator[Line]:
    cases = plural(len(by_case(advice.spots)), "case")
    what = f"{cases}, {' '.join(advice.question.precisions)}"
    newest = advice.newest
    if newest is None:
        if advice.undecided:
            yield f"Not enough evidence: no release is measured to pass all of {what}."
        elif not any(standing.failing for standing in advice.standings):
            yield f"No release can run any of {what}."
        else:
            yield f"No release passes all of {what}: each is measured to fail somewhere."
        nearest = _nearest(advice)
        if nearest is not None:
            yield f"The fewest fail on {nearest.release}: {listed(nearest.failing)}."
        return
    yield f"{newest.release} is the newest release on which all pass: {what}."
    if newest.not_applicable:
        yield f"Not applicable there: {listed(newest.not_applicable)}."
    yield Code(f"transformers{advice.specifier}")
    if advice.packages:
        others = ", ".join(f"{name} {version}" for name, version in advice.packages.items())
        yield f"Measured there with {others}, which these cases also depend on."


def _nearest(advice: Advice) -> ReleaseStanding | None:
    """Return the newest of the releases on which the fewest fail, where none passes all."""
    decided = [
        standing
        for standing in advice.standings
        if standing.failing and standing.passing and not standing.unknown
    ]
    if advice.newest is not None or not decided:
        return None
    return min(reversed(decided), key=lambda standing: len(standing.failing))


def _apart(advice: Advice) -> Iterator[Listing]:
    """Yield what is known of cases that no release by itself can run."""
    if any(standing.passing or standing.failing for standing in advice.apart):
        title = "Cases that no release by itself can run:"
        yield Listing(title, [*map(_standing_alone, advice.apart)])


def _standing_alone(standing: ReleaseStanding) -> str:
    groups = {"fails": standing.failing, "passes": standing.passing, "unknown": standing.unknown}
    clauses = [f"{word} {listed(spots)}" for word, spots in groups.items() if spots]
    return f"{standing.release}: {'; '.join(clauses) or 'not applicable'}"


def _contradicted(advice: Advice) -> Iterator[Part]:
    """Yield the pairs that fail on releases that the specifier allows, and what passes."""
    if not advice.contradicted or advice.newest is None:
        return
    names = " or ".join(advice.packages)
    yield Listing(
        f"That alone is not enough: with another {names}, releases that it allows fail:",
        [f"{cells}: {error}" for cells, error in _cited(advice.contradicted)],
    )
    pins = " ".join(f"{name}=={version}" for name, version in advice.packages.items())
    together = Code(f"transformers=={advice.newest.release} {pins}")
    yield Paragraph([("Measured to pass together: ", together)])


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
    return f"{silent.release}: no chosen case is applicable there; {cells}"


def _missing(advice: Advice) -> Iterator[Listing]:
    """Yield the command whose runs could change the answer."""
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
    nearest = _nearest(advice)
    return {
        "cases": list(by_case(advice.spots)),
        "shared-code": dict(advice.by_shared_code),
        "precisions": list(map(str, advice.question.precisions)),
        "device": str(advice.question.device),
        "newest": advice.newest.release if advice.newest else None,
        "fewest-failing": _standing(nearest) if nearest else None,
        "specifier": f"transformers{advice.specifier}" if advice.newest else None,
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
        "snapshot": snapshot_of(advice),
        "settings": settings_of(terms),
        "measured-on": {"torch": list(advice.torch), "python": list(advice.python)},
        "exit": int(advice.code),
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
