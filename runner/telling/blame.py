"""What `blame` found, in words: the first sentence is the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.model.observation import LOCAL, UNPUBLISHED
from runner.searching.oracle import Answer
from runner.telling import escaping
from runner.telling.culprits import said, sentence, swept

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.judging.company import Company
    from runner.judging.culprits import Blame, Smallest, Trial
    from runner.judging.sweeps import Sweep
    from runner.model.mixture import Change

_SHOWN = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """An answer with what a reader must know beside it."""

    blame: Blame
    company: tuple[Company, ...]
    """What the table knows of the culprits."""
    subject: str
    """The cell that was asked about, without its environment."""
    ground: str
    """What it was measured on: the device, torch, Python."""
    command: str
    """What repeats it."""
    sweep: Sweep | None = None
    """The bad end with every version of a companion, where that was asked."""


def text(report: Report) -> str:
    """Return a page for the terminal."""
    blame = report.blame
    lines = [sentence(blame), "", _about(report), _differing(blame), ""]
    listed = [trial for trial in blame.trials if trial.environment]
    width = max(len(trial.name) for trial in listed)
    for trial in listed:
        lines.append(f"  {_end(blame, trial):<4}  {trial.name:<{width}}  {_outcome(trial)}")
        if beside := _beside(blame, trial):
            lines.append(f"        {beside}")
    lines += [
        "",
        *_impossible(blame),
        *_swept(report),
        *_closing(report),
        f"Again: {report.command}",
    ]
    return "\n".join(lines) + "\n"


def markdown(report: Report) -> str:
    """Return text to paste into an issue."""
    blame = report.blame
    first, *rest = map(escaping.sentence, (sentence(blame), _about(report), _differing(blame)))
    lines = [f"**{first}**", "", *rest, ""]
    lines += ["| environment | changed | outcome |", "| --- | --- | --- |"]
    for trial in (one for one in blame.trials if one.environment):
        changed = "; ".join(filter(None, (_what(blame, trial), _beside(blame, trial))))
        cells = (trial.name, _end(blame, trial) or changed, _outcome(trial))
        lines.append(f"| {' | '.join(map(escaping.plain, cells))} |")
    further = (*_impossible(blame), *_swept(report), *_closing(report))
    lines += ["", *map(escaping.sentence, further)]
    lines += ["", "```sh", report.command, "```"]
    return "\n".join(lines) + "\n"


def structured(report: Report) -> str:
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


def _said_data(trial: Trial) -> dict[str, object]:
    seen = trial.seen
    return {
        "answer": {Answer.YES: "bad", Answer.NO: "good", Answer.UNKNOWN: "unknown"}[trial.answer],
        "outcome": str(seen.outcome) if seen else "not-run",
        "error": seen.failed.headline if seen and seen.failed else "",
        "reason": trial.reason,
        "known": trial.known,
        "source": seen.source if seen else "",
    }


def _swept(report: Report) -> Iterator[str]:
    """Yield what was swept, and each version that does not answer with its reason."""
    if report.sweep is None:
        return
    yield swept(report.sweep, report.blame)
    for _, trial in report.sweep.trials:
        if trial.answer is Answer.UNKNOWN:
            yield f"{trial.name}: {said(trial)}."
    run = sum(trial.was_run for _, trial in report.sweep.trials)
    yield f"{_number(len(report.sweep.trials), 'version')} swept, {run} run."


def _trial_data(blame: Blame, trial: Trial) -> dict[str, object]:
    return {
        "environment": trial.name,
        "packages": {one.package: one.version(trial.taken) for one in blame.ends.changes},
        "along": list(trial.company(blame.ends)),
        **_said_data(trial),
        "environment_digest": trial.environment.digest if trial.environment else "",
    }


def _company_data(company: Company) -> dict[str, object]:
    spans = {one.package: [one.first, one.last] for one in (company.culprit, *company.others)}
    return {
        "culprit": company.culprit.package,
        "environments": company.environments,
        "versions": spans,
    }


def _outcome(trial: Trial) -> str:
    source = _source(trial)
    return f"{said(trial)} ({source})" if source else said(trial)


def _end(blame: Blame, trial: Trial) -> str:
    """Return which end a mixture is."""
    ends = {frozenset(): "good", blame.ends.everything: "bad"}
    return ends.get(trial.taken, "")


def _what(blame: Blame, trial: Trial) -> str:
    """Say what a mixture has otherwise than the nearer end on purpose."""
    end, swapped = blame.ends.swapped(trial.taken)
    parts = (f"{one.package} {one.version(trial.taken) or 'left out'}" for one in swapped)
    return f"{end.name} with {', '.join(parts)}"


def _beside(blame: Blame, trial: Trial) -> str:
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


def _source(trial: Trial) -> str:
    if trial.seen is None:
        return ""
    if trial.was_run:
        return "run now"
    source = trial.seen.source
    if source in UNPUBLISHED:
        return "known here" if source == LOCAL else source
    return f"published {source}"


def _about(report: Report) -> str:
    blame = report.blame
    return f"{report.subject}, good {blame.good.name}, bad {blame.bad.name}; {report.ground}."


def _differing(blame: Blame) -> str:
    changes = blame.ends.changes
    if not changes:
        return "No package differs."
    shown = ", ".join(map(_change, changes))
    differ = "1 package differs" if len(changes) == 1 else f"{len(changes)} packages differ"
    return f"{differ}, good to bad: {shown}."


def _change(one: Change) -> str:
    return f"{one.package} {one.good or 'none'} to {one.bad or 'none'}"


def _closing(report: Report) -> Iterator[str]:
    blame = report.blame
    silent = [one for one in blame.trials if one.answer is Answer.UNKNOWN]
    idle = dict.fromkeys(name for one in _found(blame) for name in one.packages)
    idle = {name: None for name in idle if name not in blame.culprits}
    if idle:
        yield f"Alone they change nothing: {', '.join(idle)}."
    yield from (_known(one) for one in report.company)
    run = sum(one.was_run for one in blame.trials)
    known = sum(one.known for one in blame.trials)
    asked = _number(len(blame.trials), "environment")
    yield f"{asked} asked: {known} known, {run} run, {len(silent)} without an answer."


def _found(blame: Blame) -> list[Smallest]:
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


def _known(company: Company) -> str:
    beside = ", ".join(one.text for one in company.others)
    every = "the 1 environment" if company.environments == 1 else "all environments"
    told = f"The table: {company.culprit.text} fails in {every} measured with it"
    number = f" ({company.environments})" if company.environments > 1 else ""
    return f"{told}{number}, beside {beside}." if beside else f"{told}{number}."


def _number(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
