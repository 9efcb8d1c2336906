"""Render the answer of `blame`: text, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from repromatrix.runner import markdown
from repromatrix.runner.bisect.mixture import PackageChange
from repromatrix.runner.bisect.packages import (
    Blame,
    BlameOutcome,
    MixtureTrial,
    Smallest,
    Sweep,
    TableEvidence,
)
from repromatrix.runner.bisect.search import Answer
from repromatrix.runner.model.observation import LOCAL, UNPUBLISHED
from repromatrix.runner.model.outcomes import Exercised, Outcome

_HEADLINE = 160


def sentence(blame: Blame) -> str:
    """Return the answer."""
    good, bad = blame.good, blame.bad
    match blame.ending:
        case BlameOutcome.GOOD_IS_BAD | BlameOutcome.BAD_IS_GOOD if good is bad:
            return f"Both ends are the same environment: {good.name} {said(good)}."
        case BlameOutcome.GOOD_IS_BAD:
            hint = {
                Answer.NO: f"{bad.name} is good: exchange the two",
                Answer.YES: f"{bad.name} is bad, too",
                Answer.UNKNOWN: f"{bad.name} answers nothing: {said(bad)}",
            }[bad.answer]
            return f"{good.name}, which should be good, {said(good)}; {hint}."
        case BlameOutcome.BAD_IS_GOOD:
            other = "passes, too" if good.answer is Answer.NO else f"answers nothing: {said(good)}"
            return f"Not reproduced: {bad.name}, which should be bad, passes; {good.name} {other}."
        case BlameOutcome.SILENT:
            silent = [end for end in (good, bad) if end.answer is Answer.UNKNOWN]
            told = "; ".join(f"{end.name}: {said(end)}" for end in silent)
            return f"There is nothing to compare, an end answers nothing: {told}."
        case BlameOutcome.FOUND | BlameOutcome.UNDECIDED:
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


def said(trial: MixtureTrial) -> str:
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


_SHOWN = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class BlameReport:
    """An answer with what a reader must know beside it."""

    blame: Blame
    company: tuple[TableEvidence, ...]
    """What the table knows of the culprits."""
    subject: str
    """The cell that was asked about, without its environment."""
    ground: str
    """What it was measured on: the device, torch, Python."""
    command: str
    """What repeats it."""
    sweep: Sweep | None = None
    """The bad end with every version of a companion, where that was asked."""


def blame_text(report: BlameReport) -> str:
    """Return a page for the terminal."""
    blame = report.blame
    lines = [sentence(blame), "", _about(report), _differing(blame), ""]
    listed = [trial for trial in blame.trials if trial.environment]
    width = max(len(trial.name) for trial in listed)
    for trial in listed:
        lines.append(f"  {_end(blame, trial):<4}  {trial.name:<{width}}  {_outcome(trial)}")
        if beside := _beside_json(blame, trial):
            lines.append(f"        {beside}")
    lines += [
        "",
        *_impossible(blame),
        *_swept(report),
        *_closing(report),
        f"Again: {report.command}",
    ]
    return "\n".join(lines) + "\n"


def blame_markdown(report: BlameReport) -> str:
    """Return text to paste into an issue."""
    blame = report.blame
    first, *rest = map(markdown.sentence, (sentence(blame), _about(report), _differing(blame)))
    lines = [f"**{first}**", "", *rest, ""]
    lines += ["| environment | changed | outcome |", "| --- | --- | --- |"]
    for trial in (one for one in blame.trials if one.environment):
        changed = "; ".join(filter(None, (_what(blame, trial), _beside_json(blame, trial))))
        cells = (trial.name, _end(blame, trial) or changed, _outcome(trial))
        lines.append(f"| {' | '.join(map(markdown.plain, cells))} |")
    further = (*_impossible(blame), *_swept(report), *_closing(report))
    lines += ["", *map(markdown.sentence, further)]
    lines += ["", "```sh", report.command, "```"]
    return "\n".join(lines) + "\n"


def structured(report: BlameReport) -> str:
    """Return the answer for programs, as JSON."""
    blame = report.blame
    found = {
        "ending": str(blame.ending),
        "answer": sentence(blame),
        "cell": report.subject,
        "measured": report.ground,
        "good": blame.good.name,
        "bad": blame.bad.name,
        "changes": {one.package: {"good": one.good, "bad": one.bad} for one in blame.ends.changes},
        "breaks": list(blame.breaks.packages) if blame.breaks else None,
        "heals": list(blame.heals.packages) if blame.heals else None,
        "trials": [_trial_data(blame, trial) for trial in blame.trials],
        "table": [_company_data(one) for one in report.company],
        "sweep": _sweep_data(report.sweep) if report.sweep else None,
        "command": report.command,
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _sweep_data(sweep: Sweep) -> dict[str, object]:
    return {
        "package": sweep.package,
        "base": sweep.base,
        "versions": {version: _said_data(trial) for version, trial in sweep.trials},
    }


def _said_data(trial: MixtureTrial) -> dict[str, object]:
    seen = trial.seen
    return {
        "answer": {Answer.YES: "bad", Answer.NO: "good", Answer.UNKNOWN: "unknown"}[trial.answer],
        "outcome": str(seen.outcome) if seen else "not-run",
        "error": seen.failed.headline if seen and seen.failed else "",
        "reason": trial.reason,
        "known": trial.known,
        "source": seen.source if seen else "",
    }


def _swept(report: BlameReport) -> Iterator[str]:
    """Yield what was swept, and each version that does not answer with its reason."""
    if report.sweep is None:
        return
    yield swept(report.sweep, report.blame)
    for _, trial in report.sweep.trials:
        if trial.answer is Answer.UNKNOWN:
            yield f"{trial.name}: {said(trial)}."
    run = sum(trial.was_run for _, trial in report.sweep.trials)
    yield f"{_number(len(report.sweep.trials), 'version')} swept, {run} run."


def _trial_data(blame: Blame, trial: MixtureTrial) -> dict[str, object]:
    return {
        "environment": trial.name,
        "packages": {one.package: one.version(trial.taken) for one in blame.ends.changes},
        "along": list(trial.company(blame.ends)),
        **_said_data(trial),
        "environment_digest": trial.environment.digest if trial.environment else "",
    }


def _company_data(company: TableEvidence) -> dict[str, object]:
    spans = {one.package: [one.first, one.last] for one in (company.culprit, *company.others)}
    return {
        "culprit": company.culprit.package,
        "environments": company.environments,
        "versions": spans,
    }


def _outcome(trial: MixtureTrial) -> str:
    source = _source(trial)
    return f"{said(trial)} ({source})" if source else said(trial)


def _end(blame: Blame, trial: MixtureTrial) -> str:
    """Return which end a mixture is."""
    ends = {frozenset(): "good", blame.ends.everything: "bad"}
    return ends.get(trial.taken, "")


def _what(blame: Blame, trial: MixtureTrial) -> str:
    """Say what a mixture has otherwise than the nearer end on purpose."""
    end, swapped = blame.ends.swapped(trial.taken)
    parts = (f"{one.package} {one.version(trial.taken) or 'left out'}" for one in swapped)
    return f"{end.name} with {', '.join(parts)}"


def _beside_json(blame: Blame, trial: MixtureTrial) -> str:
    """Say what its name does not: what else is changed, what came along, and what went."""
    _, swapped = blame.ends.swapped(trial.taken)
    told = [] if "@" not in trial.name else [_what(blame, trial)]
    company = trial.company(blame.ends)
    came = [one[1:] for one in company if one[0] == "+"]
    went = [one[1:] for one in company if one[0] == "-"]
    if swapped and came:
        told.append(f"along with it: {', '.join(came)}")
    if swapped and went:
        told.append(f"gone with it: {', '.join(went)}")
    return "; ".join(told)


def _source(trial: MixtureTrial) -> str:
    if trial.seen is None:
        return ""
    if trial.was_run:
        return "run now"
    source = trial.seen.source
    if source in UNPUBLISHED:
        return "known here" if source == LOCAL else source
    return f"published {source}"


def _about(report: BlameReport) -> str:
    blame = report.blame
    return f"{report.subject}, good {blame.good.name}, bad {blame.bad.name}; {report.ground}."


def _differing(blame: Blame) -> str:
    changes = blame.ends.changes
    if not changes:
        return "No package differs."
    shown = ", ".join(map(_change, changes))
    differ = "1 package differs" if len(changes) == 1 else f"{len(changes)} packages differ"
    return f"{differ}, good to bad: {shown}."


def _change(one: PackageChange) -> str:
    return f"{one.package} {one.good or 'none'} to {one.bad or 'none'}"


def _closing(report: BlameReport) -> Iterator[str]:
    blame = report.blame
    silent = [one for one in blame.trials if one.answer is Answer.UNKNOWN]
    idle = dict.fromkeys(name for one in _found_json(blame) for name in one.packages)
    idle = {name: None for name in idle if name not in blame.culprits}
    if idle:
        yield f"Alone they change nothing: {', '.join(idle)}."
    yield from (_known(one) for one in report.company)
    run = sum(one.was_run for one in blame.trials)
    known = sum(one.known for one in blame.trials)
    asked = _number(len(blame.trials), "environment")
    yield f"{asked} asked: {known} known, {run} run, {len(silent)} without an answer."


def _found_json(blame: Blame) -> list[Smallest]:
    return [one for one in (blame.breaks, blame.heals) if one]


def _impossible(blame: Blame) -> Iterator[str]:
    """Yield what no environment holds together, by the reason of the resolver."""
    by_reason: dict[str, list[str]] = {}
    for trial in blame.trials:
        if trial.environment is None:
            by_reason.setdefault(trial.reason, []).append(_what(blame, trial))
    for reason, mixtures in by_reason.items():
        yield f"{reason} ({'; '.join(mixtures[:_SHOWN])}{_more(mixtures)})"
    if by_reason:
        yield ""


def _more(mixtures: Sequence[str]) -> str:
    return f" and {len(mixtures) - _SHOWN} more" if len(mixtures) > _SHOWN else ""


def _known(company: TableEvidence) -> str:
    beside = ", ".join(one.text for one in company.others)
    every = "the 1 environment" if company.environments == 1 else "all environments"
    told = f"The table: {company.culprit.text} fails in {every} measured with it"
    number = f" ({company.environments})" if company.environments > 1 else ""
    return f"{told}{number}, beside {beside}." if beside else f"{told}{number}."


def _number(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
