"""The answer of `blame` in words, and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from repromatrix.runner.bisect.oracle import why_unknown
from repromatrix.runner.bisect.packages import Blame, BlameOutcome, MixtureTrial, Smallest
from repromatrix.runner.bisect.search import Answer
from repromatrix.runner.document import Document, Paragraph, Table
from repromatrix.runner.model.observation import LOCAL, UNPUBLISHED
from repromatrix.runner.model.packages import MOVED
from repromatrix.runner.text import join, plural

_SHOWN = 2
_FIX, _BREAK = ("fixes", "fix"), ("breaks", "break")


def sentence(blame: Blame) -> str:
    """Return the answer."""
    good, bad = blame.good, blame.bad
    match blame.ending:
        case BlameOutcome.GOOD_IS_BAD | BlameOutcome.BAD_IS_GOOD if good is bad:
            return f"Both ends are the same environment: {good.name} {said(good)}."
        case BlameOutcome.GOOD_IS_BAD:
            hint = {
                Answer.NO: f"{bad.name} is good: swap --good and --bad",
                Answer.YES: f"{bad.name} is bad, too",
                Answer.UNKNOWN: f"{bad.name} could not be judged: {said(bad)}",
            }[bad.answer]
            return f"{good.name}, which should be good, {said(good)}; {hint}."
        case BlameOutcome.BAD_IS_GOOD:
            passes = good.answer is Answer.NO
            other = "passes, too" if passes else f"could not be judged: {said(good)}"
            return f"Not reproduced: {bad.name}, which should be bad, passes; {good.name} {other}."
        case BlameOutcome.SILENT:
            silent = [end for end in (good, bad) if end.answer is Answer.UNKNOWN]
            reasons = "; ".join(f"{end.name}: {said(end)}" for end in silent)
            return f"Nothing can be compared, because an end could not be judged: {reasons}."
        case BlameOutcome.FOUND | BlameOutcome.UNDECIDED:
            assert blame.breaks  # noqa: S101 - an answer has both directions
            assert blame.fixes  # noqa: S101
            return _found(blame, blame.breaks, blame.fixes)


def _found(blame: Blame, breaks: Smallest, fixes: Smallest) -> str:
    if set(breaks.suspects) == set(fixes.suspects):
        lead = _same(breaks, fixes)
    else:
        lead = f"{_lead(breaks, _BREAK)}; {_lead(fixes, _FIX)}"
    fixed = f"{blame.bad.name} {_changed(blame, fixes, to_bad=False)}"
    broken = f"{blame.good.name} {_changed(blame, breaks, to_bad=True)}"
    along = fixes.shown.company(blame.ends) or breaks.shown.company(blame.ends)
    only = " (and what comes along)" if along else ""
    return f"{lead}: {fixed}{only} and nothing else changed passes; {broken} fails."


def _same(breaks: Smallest, fixes: Smallest) -> str:
    names = breaks.suspects
    if len(names) == 1:
        return f"{names[0]}{_beside(breaks) or _beside(fixes) or ' alone'}"
    if breaks.hidden or fixes.hidden:
        return f"{join(names, 'or')}, which cannot be told apart"
    return f"{join(names)}, only together"


def _lead(least: Smallest, verbs: tuple[str, str]) -> str:
    names, (singular, together) = least.suspects, verbs
    if len(names) == 1:
        return f"{names[0]}{_beside(least) or ' alone'} {singular} it"
    if least.hidden:
        return f"{join(names, 'or')} {singular} it, and they cannot be told apart"
    return f"{join(names)} {together} it only together"


def _beside(least: Smallest) -> str:
    """Name what has to come with the suspects and changes nothing alone."""
    others = [name for name in least.packages if name not in least.suspects]
    return f" (with {join(others)})" if others else ""


def _changed(blame: Blame, least: Smallest, *, to_bad: bool) -> str:
    """Say what an end is given: `with peft 0.16.0`, `without timm`."""
    changes = [change for change in blame.ends.changes if change.package in least.packages]
    given = {change.package: change.bad if to_bad else change.good for change in changes}
    added = join([f"{package} {version}" for package, version in given.items() if version])
    gone = join([package for package, version in given.items() if not version])
    parts = (f"with {added}" if added else "", f"without {gone}" if gone else "")
    return " and ".join(filter(None, parts))


def said(trial: MixtureTrial) -> str:
    """Return what happened in a mixture, or why it could not be judged."""
    row = trial.seen
    if row is None or trial.reason:
        return trial.reason
    return why_unknown(row) if trial.answer is Answer.UNKNOWN else row.described


def document(blame: Blame, *, subject: str, ground: str, command: str) -> Document:
    """Return the answer as a document.

    `subject` is the cell that was asked about, without its environment, `ground` what it was
    measured on (the device, torch, Python), and `command` what repeats it.
    """
    about = f"{subject}, good {blame.good.name}, bad {blame.bad.name}; {ground}."
    ends = {frozenset(): "good", blame.ends.everything: "bad"}
    rows = [
        (ends.get(trial.taken, ""), trial.name, _outcome(blame, trial))
        for trial in blame.trials
        if trial.environment
    ]
    return Document(
        headline=sentence(blame),
        parts=[
            Paragraph([*_about(blame, about)]),
            Table(("end", "environment", "outcome"), rows),
            Paragraph([*_impossible(blame)]),
            Paragraph([*_further(blame)]),
        ],
        data=_data(blame, subject, ground, command),
        repeat=command,
    )


def _data(blame: Blame, subject: str, ground: str, command: str) -> dict[str, Any]:
    return {
        "ending": str(blame.ending),
        "answer": sentence(blame),
        "cell": subject,
        "measured": ground,
        "good": blame.good.name,
        "bad": blame.bad.name,
        "changes": {
            change.package: {"good": change.good, "bad": change.bad}
            for change in blame.ends.changes
        },
        "breaks": list(blame.breaks.packages) if blame.breaks else None,
        "heals": list(blame.fixes.packages) if blame.fixes else None,
        "trials": [_trial_data(blame, trial) for trial in blame.trials],
        "command": command,
    }


def _trial_data(blame: Blame, trial: MixtureTrial) -> dict[str, object]:
    seen = trial.seen
    return {
        "environment": trial.name,
        "packages": {change.package: change.version(trial.taken) for change in blame.ends.changes},
        "along": list(trial.company(blame.ends)),
        "answer": trial.answer.word,
        "outcome": str(seen.outcome) if seen else "not-run",
        "error": seen.failed.headline if seen and seen.failed else "",
        "reason": trial.reason,
        "known": trial.known,
        "source": seen.source if seen else "",
        "environment_digest": trial.environment.digest if trial.environment else "",
    }


def _outcome(blame: Blame, trial: MixtureTrial) -> str:
    """Return what happened in a mixture, where it is known from, and what its name leaves out.

    That is what is changed, what came along, and what went.
    """
    source = trial.seen.source if trial.seen else ""
    known = "known here" if source == LOCAL else f"published {source}"
    if source in UNPUBLISHED - {LOCAL}:
        known = source
    parts = [f"{said(trial)} ({'run now' if trial.was_run else known})" if source else said(trial)]
    if "@" in trial.name:
        parts.append(_what(blame, trial))
    _, swapped = blame.ends.swapped(trial.taken)
    for sign, words in (("+", "along with it"), ("-", "gone with it")):
        names = [name[1:] for name in trial.company(blame.ends) if name[0] == sign]
        if swapped and names:
            parts.append(f"{words}: {', '.join(names)}")
    return "; ".join(filter(None, parts))


def _what(blame: Blame, trial: MixtureTrial) -> str:
    """Say which packages of a mixture were changed on purpose: `4.50.3 with peft 0.16.0`."""
    end, swapped = blame.ends.swapped(trial.taken)
    parts = (f"{one.package} {one.version(trial.taken) or 'left out'}" for one in swapped)
    return f"{end.name} with {', '.join(parts)}"


def _about(blame: Blame, asked: str) -> Iterator[str]:
    """Yield what cannot be told apart, what was asked, and what differs."""
    changes = blame.ends.changes
    sources = [package for package in MOVED if package in blame.culprits]
    hidden = [trial for least in blame.least for trial in least.hidden]
    is_apart = any(trial.environment is None for trial in hidden)
    if blame.ending is BlameOutcome.UNDECIDED and sources and is_apart:
        apart = f"{join(blame.culprits)} cannot be installed apart"
        yield f"{apart}; bisect --commits searches the commits of {join(sources, 'or')}."
    yield asked
    if not changes:
        yield "No package differs."
        return
    shown = ", ".join(
        f"{change.package} {change.good or 'none'} to {change.bad or 'none'}" for change in changes
    )
    verb = "differs" if len(changes) == 1 else "differ"
    yield f"{plural(len(changes), 'package')} {verb}, good to bad: {shown}."


def _further(blame: Blame) -> Iterator[str]:
    trials = blame.trials
    names = dict.fromkeys(name for least in blame.least for name in least.packages)
    if idle := [name for name in names if name not in blame.culprits]:
        yield f"Alone they change nothing: {', '.join(idle)}."
    run, known = sum(trial.was_run for trial in trials), sum(trial.known for trial in trials)
    silent = sum(trial.answer is Answer.UNKNOWN for trial in trials)
    yield f"{plural(len(trials), 'environment')}: {known} known, {run} run, {silent} not judged."


def _impossible(blame: Blame) -> Iterator[str]:
    """Yield the mixtures that cannot be resolved, by the reason of the resolver."""
    by_reason: dict[str, list[str]] = {}
    for trial in blame.trials:
        if trial.environment is None:
            by_reason.setdefault(trial.reason, []).append(_what(blame, trial))
    for reason, mixtures in by_reason.items():
        more = f" and {len(mixtures) - _SHOWN} more" if len(mixtures) > _SHOWN else ""
        yield f"{reason} ({'; '.join(mixtures[:_SHOWN])}{more})"
