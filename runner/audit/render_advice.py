"""The answer of `advise`: text, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from repromatrix.runner.audit.advice import Advice, Exclusion, ReleaseStanding
from repromatrix.runner.audit.render_spots import by_case, listed, measured_on
from repromatrix.runner.markdown import plain
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Outcome
from repromatrix.runner.text import plural, shorten

_WIDE = 80
_FEW = 3


def text(found: Advice) -> str:
    """Return the answer for a terminal."""
    first = (_answer(found), _apart(found))
    parts = (*first, _contradicted(found), _excluded(found), _evidence(found))
    blocks = [*([*part] for part in parts), [_measured(found)]]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _answer(found: Advice) -> Iterator[str]:
    what = f"{plural(len(by_case(found.spots)), 'case')}, {' '.join(found.question.precisions)}"
    newest = found.newest
    if newest is None:
        yield _none(found, what)
        yield from _best(found)
        return
    yield f"{newest.release} is the newest release on which all pass: {what}."
    if newest.not_applicable:
        yield f"There do not apply: {listed(newest.not_applicable)}."
    yield f"transformers{found.specifier}"
    if found.packages:
        held = ", ".join(f"{name} {version}" for name, version in found.packages.items())
        yield f"Measured there with {held}, which these cases depend on too."


def _apart(found: Advice) -> Iterator[str]:
    """Say what is known of cases that no release by itself can run."""
    if any(one.passing or one.failing for one in found.apart):
        yield "Of cases that no release by itself can run:"
        for one in found.apart:
            groups = {"fails": one.failing, "passes": one.passing, "unknown": one.unknown}
            said = (f"{word} {listed(spots)}" for word, spots in groups.items() if spots)
            yield f"  {one.release}: {'; '.join(said) or 'does not apply'}"


def _contradicted(found: Advice) -> Iterator[str]:
    """Name the pairs that fail on releases that the specifier allows, and what is sure."""
    if not found.contradicted or found.newest is None:
        return
    names = " or ".join(found.packages)
    yield f"That alone is not enough: with another {names}, releases that it allows fail:"
    for cells, error in cited(found.contradicted):
        yield f"  {cells}: {error}"
    pins = " ".join(f"{name}=={version}" for name, version in found.packages.items())
    yield f"Measured to pass together: transformers=={found.newest.release} {pins}"


def cited(rows: Sequence[Observation]) -> Iterator[tuple[str, str]]:
    """Yield cells of one case, precision and error together, with their environments."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        cells = f"{row.cell.case} {row.cell.precision} {row.outcome} in"
        error = "" if row.outcome is Outcome.PASSES else shorten(row.headline, _WIDE)
        found.setdefault((cells, error), []).append(row.cell.environment)
    for (cells, error), names in found.items():
        yield f"{cells} {', '.join(names)}", error


def _none(found: Advice, what: str) -> str:
    if found.undecided:
        return f"Not enough evidence: no release is measured to pass all of {what}."
    if not any(one.failing for one in found.standings):
        return f"No release can run any of {what}."
    return f"No release passes all of {what}: each is measured to fail somewhere."


def _best(found: Advice) -> Iterator[str]:
    """Say which release comes nearest, so that the question can be made smaller."""
    best = _nearest(found)
    if best is not None:
        yield f"The fewest fail on {best.release}: {listed(best.failing)}."


def _nearest(found: Advice) -> ReleaseStanding | None:
    """Return the newest of the releases on which the fewest fail, where none passes all."""
    decided = [one for one in found.standings if one.failing and not one.unknown and one.passing]
    if found.newest is not None or not decided:
        return None
    return min(reversed(decided), key=lambda one: len(one.failing))


def _excluded(found: Advice) -> Iterator[str]:
    for one in found.exclusions:
        yield f"  {one.clause:<12} {_why(one)}"


def _why(one: Exclusion) -> str:
    """Cite the cells that speak against what a clause keeps out, or those that stand beside it."""
    cells = [f"{where}: {error}" if error else where for where, error in cited(one.cites)]
    if one.failing:
        return "; ".join(cells)
    return f"{_silent(one)}; {'; '.join(cells)}"


def _silent(one: Exclusion) -> str:
    """Say why a clause stands that no failing cell speaks for."""
    if not one.releases:
        side = {">": "older", "<": "newer"}.get(one.clause[0], "else")
        return f"nothing {side} is measured"
    silent = one.releases[0]
    if silent.unknown:
        return f"{silent.release}: not enough evidence, {listed(silent.unknown)}"
    return f"{silent.release}: nothing that was asked applies there"


def _evidence(found: Advice) -> Iterator[str]:
    """Name the runs that could change the answer."""
    if not found.undecided:
        return
    names = [one.release for one in found.undecided]
    shown = ", ".join(names if len(names) <= _FEW else [names[0], "…", names[-1]])
    yield f"Not enough evidence for {plural(len(names), 'newer release')} ({shown}). Run:"
    yield f"  {command(found.undecided)}"


def command(undecided: Sequence[ReleaseStanding]) -> str:
    """Return the command that measures what is missing."""
    spots = [spot for one in undecided for spot in one.unknown]
    cases = ",".join(dict.fromkeys(spot.case for spot in spots))
    precisions = ",".join(sorted({str(spot.precision) for spot in spots}))
    releases = ",".join(one.release for one in undecided)
    return (
        f"nox -s matrix -- --case {cases} --release {releases}"
        f" --precision {precisions} --workaround none"
    )


def _measured(found: Advice) -> str:
    where = measured_on(found.question.device, found.torch, found.python)
    return f"{where[0].upper()}{where[1:]}."


def markdown(found: Advice) -> str:
    """Return the answer to paste."""
    first, *rest = _answer(found)
    lines = [f"**{plain(first)}**", *map(_line, rest)]
    apart = [line.strip() for line in _apart(found)]
    why, *cells = [*_contradicted(found)] or [""]
    pairs = [
        plain(why),
        "\n".join(f"- {plain(one)}" for one in cells[:-1]),
        *map(plain, cells[-1:]),
    ]
    excluded = [f"- `{one.clause}`: {plain(_why(one))}" for one in found.exclusions]
    evidence = [_line(line.strip()) for line in _evidence(found)]
    blocks = [
        "  \n".join(lines),
        *apart[:1],
        "\n".join(f"- {plain(one)}" for one in apart[1:]),
        *pairs,
        "\n".join(excluded),
        "  \n".join(evidence),
        _measured(found),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _line(text: str) -> str:
    coded = text.startswith(("transformers", "nox -s "))
    return f"`{text}`" if coded else plain(text)


def as_json(found: Advice) -> str:
    """Return the answer for a program."""
    return json.dumps(_object(found), indent=1, ensure_ascii=False) + "\n"


def _object(found: Advice) -> dict[str, Any]:
    nearest = _nearest(found)
    return {
        "cases": list(by_case(found.spots)),
        "precisions": [str(one) for one in found.question.precisions],
        "device": str(found.question.device),
        "newest": found.newest.release if found.newest else None,
        "fewest-failing": _standing(nearest) if nearest else None,
        "specifier": f"transformers{found.specifier}" if found.newest else None,
        "within": list(found.within),
        "packages": dict(found.packages),
        "contradicted-by": [
            {**_cell(row), "packages": dict(taken_apart(row.cell.environment).changed)}
            for row in found.contradicted
        ],
        "exclusions": [_exclusion(one) for one in found.exclusions],
        "not-enough-evidence": [one.release for one in found.undecided],
        "run": command(found.undecided) if found.undecided else None,
        "releases": [_standing(one) for one in found.standings],
        "apart": [_standing(one) for one in found.apart],
        "measured-on": {"torch": list(found.torch), "python": list(found.python)},
        "exit": int(found.code),
    }


def _exclusion(one: Exclusion) -> dict[str, Any]:
    return {
        "clause": one.clause,
        "releases": [standing.release for standing in one.releases],
        "why": _why(one),
        "cites": [_cell(row) for row in one.cites],
    }


def _cell(row: Observation) -> dict[str, Any]:
    return {
        "case": row.cell.case,
        "environment": row.cell.environment,
        "precision": str(row.cell.precision),
        "outcome": str(row.outcome),
        "error": None if row.outcome is Outcome.PASSES else row.headline,
        "source": row.source,
    }


def _standing(one: ReleaseStanding) -> dict[str, Any]:
    groups = ("passing", "failing", "not_applicable", "unknown")
    spots = {
        name.replace("_", "-"): [f"{spot.case}:{spot.precision}" for spot in getattr(one, name)]
        for name in groups
    }
    return {"release": one.release, **spots}
