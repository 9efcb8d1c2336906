"""The answer of `blame` as a sentence, and what happened in a mixture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.judging.culprits import Ending
from runner.model.outcomes import Exercised, Outcome
from runner.searching.oracle import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.judging.culprits import Blame, Smallest, Trial
    from runner.judging.sweeps import Sweep

_HEADLINE = 160


def sentence(blame: Blame) -> str:
    """Return the answer."""
    good, bad = blame.good, blame.bad
    match blame.ending:
        case Ending.GOOD_IS_BAD | Ending.BAD_IS_GOOD if good is bad:
            return f"Both ends are the same environment: {good.name} {said(good)}."
        case Ending.GOOD_IS_BAD:
            hint = {
                Answer.NO: f"{bad.name} is good: exchange the two",
                Answer.YES: f"{bad.name} is bad, too",
                Answer.UNKNOWN: f"{bad.name} answers nothing: {said(bad)}",
            }[bad.answer]
            return f"{good.name}, which should be good, {said(good)}; {hint}."
        case Ending.BAD_IS_GOOD:
            other = "passes, too" if good.answer is Answer.NO else f"answers nothing: {said(good)}"
            return f"Not reproduced: {bad.name}, which should be bad, passes; {good.name} {other}."
        case Ending.SILENT:
            silent = [end for end in (good, bad) if end.answer is Answer.UNKNOWN]
            told = "; ".join(f"{end.name}: {said(end)}" for end in silent)
            return f"There is nothing to compare, an end answers nothing: {told}."
        case Ending.FOUND | Ending.UNDECIDED:
            assert blame.breaks  # noqa: S101 - an answer has both directions
            assert blame.heals  # noqa: S101
            return _found(blame, blame.breaks, blame.heals)


def _found(blame: Blame, breaks: Smallest, heals: Smallest) -> str:
    if set(breaks.suspects) == set(heals.suspects):
        lead = _same(breaks, heals)
    else:
        lead = f"{_lead(breaks, 'break')}; {_lead(heals, 'heal')}"
    healed = f"{blame.bad.name} {_changed(blame, heals, to_bad=False)}"
    broken = f"{blame.good.name} {_changed(blame, breaks, to_bad=True)}"
    along = heals.shown.company(blame.ends) or breaks.shown.company(blame.ends)
    only = " (and what comes along)" if along else ""
    return f"{lead}: {healed}{only} and nothing else changed passes; {broken} fails."


def _same(breaks: Smallest, heals: Smallest) -> str:
    names = breaks.suspects
    if len(names) == 1:
        beside = _beside(breaks) or _beside(heals)
        return f"{names[0]}{beside}" if beside else f"{names[0]} alone"
    if breaks.hidden or heals.hidden:
        return f"{_list(names, 'or')}, which cannot be told apart"
    return f"{_list(names)}, only together"


def _lead(found: Smallest, verb: str) -> str:
    names = found.suspects
    if len(names) == 1:
        return f"{names[0]}{_beside(found) or ' alone'} {verb}s it"
    if found.hidden:
        return f"{_list(names, 'or')} {verb}s it, and they cannot be told apart"
    return f"{_list(names)} {verb} it only together"


def _beside(found: Smallest) -> str:
    """Name what has to come with the suspects and changes nothing alone."""
    others = [name for name in found.packages if name not in found.suspects]
    return f" (with {_list(others)})" if others else ""


def _list(names: Sequence[str], word: str = "and") -> str:
    return f" {word} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _changed(blame: Blame, found: Smallest, *, to_bad: bool) -> str:
    """Say what an end is given: `with peft 0.16.0`, `without timm`."""
    changes = [one for one in blame.ends.changes if one.package in found.packages]
    given = {one.package: one.bad if to_bad else one.good for one in changes}
    held = [f"{package} {version}" for package, version in given.items() if version]
    gone = [package for package, version in given.items() if not version]
    return " and ".join(
        [*([f"with {_list(held)}"] if held else []), *([f"without {_list(gone)}"] if gone else [])]
    )


def said(trial: Trial) -> str:
    """Return what happened in a mixture, or why nothing did."""
    seen = trial.seen
    if seen is None or trial.reason:
        return trial.reason
    detail = seen.failed.headline if seen.failed else seen.reason
    told = f"{seen.outcome}: {detail[:_HEADLINE]}" if detail else str(seen.outcome)
    if trial.answer is not Answer.UNKNOWN:
        return told
    if seen.unstable:
        return f"unstable, last {told}"
    if seen.outcome is Outcome.PASSES and seen.exercised is Exercised.NO:
        return f"passes without ever computing in {seen.cell.precision}"
    return f"{told} (not what the case describes)" if seen.outcome.is_failure else told


def swept(sweep: Sweep, blame: Blame) -> str:
    """Return what a sweep found: `4.50.3 fails with every accelerate from 1.3.0 to 1.15.0`."""
    said = [one for one in sweep.stretches if one.answer is not Answer.UNKNOWN]
    if len(said) == 1 and len(said[0].versions) > 1:
        first, last = said[0].versions[0], said[0].versions[-1]
        verb = _verb(said[0].answer)
        whole = f"{sweep.base} {verb} with every {sweep.package} from {first} to {last}"
        healing = blame.heals if said[0].answer is Answer.YES else None
        healed = f"; {_lead(healing, 'heal')}" if healing else ""
        return f"{whole} ({len(said[0].versions)} minor versions){healed}."
    parts = (f"{_verb(one.answer)} with {_versions(one.versions)}" for one in sweep.stretches)
    return f"{sweep.base} and {sweep.package}: {', '.join(parts)}."


def _verb(answer: Answer) -> str:
    return {Answer.YES: "fails", Answer.NO: "passes", Answer.UNKNOWN: "answers nothing"}[answer]


def _versions(versions: Sequence[str]) -> str:
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
