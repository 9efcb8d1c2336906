"""Where a workaround fixes the bug, is not needed, does harm, does not help, or proves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from repromatrix.reports.text import visible
from repromatrix.reports.view import Survey
from repromatrix.runner.judging.workarounds import refuted
from repromatrix.runner.model.case import PLAIN, Case
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.text import join


class Effect(StrEnum):
    """A workaround beside the plain case, in one release and precision."""

    FIXES = "fixes"
    NOT_NEEDED = "not-needed"
    HARMS = "harms"
    DOES_NOT_HELP = "does-not-help"
    NOT_PROVEN = "not-proven"
    """The bug is there, and no result says what the workaround does: it may compute in fp32."""

    @property
    def words(self) -> str:
        """The effect as it is read."""
        return self.value.replace("-", " ")


@dataclass(frozen=True, kw_only=True, slots=True)
class Where:
    """The releases on which a workaround has one effect, in words."""

    effect: Effect
    releases: str
    number: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Effects:
    """What a workaround does on one device, precisions alike together."""

    precisions: str
    device: str
    where: tuple[Where, ...]

    @property
    def is_needed(self) -> bool:
        """Whether it does anything at all, good or bad."""
        return any(where.effect is not Effect.NOT_NEEDED for where in self.where)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkaroundAdvice:
    """A workaround with all that it does."""

    name: str
    anchor: str
    says: str
    snippet: str
    """The code to paste; empty where there is none."""
    skips: bool
    refuted: bool
    """Whether no result shows it work: a claim, and no workaround."""
    effects: tuple[Effects, ...]

    @property
    def fixes(self) -> dict[str, int]:
        """Where it works, in words, and the number of releases; precisions that agree are one."""
        seen = ((one.precisions, where) for one in self.effects for where in one.where)
        helps = [(named, where) for named, where in seen if where.effect is Effect.FIXES]
        return {f"{named}: {where.releases}": where.number for named, where in helps}


def effect(plain: bool | None, worked_around: bool | None) -> Effect | None:  # noqa: FBT001
    """Classify by which of the two fails; None where nothing can be said."""
    match plain, worked_around:
        case True, False:
            return Effect.FIXES
        case False, False:
            return Effect.NOT_NEEDED
        case False, True:
            return Effect.HARMS
        case True, True:
            return Effect.DOES_NOT_HELP
        case True, None:
            return Effect.NOT_PROVEN
        case _:
            return None


def advise(survey: Survey, case: Case) -> tuple[WorkaroundAdvice, ...]:
    """Return the workarounds of a case, those that work on most releases first.

    Those that skip the thing itself come later, and those that never work last.
    """
    idle = refuted(survey.of_case(case.name))
    advices = [
        WorkaroundAdvice(
            name=visible(name),
            anchor=f"with-{name}",
            says=visible(workaround.says),
            snippet=visible(case.block.snippets.get(name, "")),
            skips=workaround.skips,
            refuted=name in idle,
            effects=tuple(
                effects
                for device in survey.devices_of(case.name)
                for effects in _effects(survey, case, name, device)
            ),
        )
        for name, workaround in case.block.workarounds.items()
    ]
    ranks = {one.name: (one.refuted, one.skips, -sum(one.fixes.values())) for one in advices}
    return tuple(sorted(advices, key=lambda advice: ranks[advice.name]))


def _effects(survey: Survey, case: Case, name: str, device: Device) -> Iterator[Effects]:
    alike: dict[tuple[Where, ...], list[str]] = {}
    for precision in Precision:
        if where := _where(survey, case.name, name, precision, device):
            alike.setdefault(where, []).append(precision.value)
    for where, precisions in alike.items():
        yield Effects(precisions=join(precisions), device=device.value, where=where)


def _where(
    survey: Survey, case: str, name: str, precision: Precision, device: Device
) -> tuple[Where, ...]:
    failing = survey.failing(case)
    plain, other = (failing.get((variant, device, precision), {}) for variant in (PLAIN, name))
    found: dict[Effect, list[str]] = {}
    for release, fails in plain.items():
        kind = effect(fails, other.get(release))
        if kind is not None:
            found.setdefault(kind, []).append(release)
    return tuple(
        Where(effect=kind, releases=survey.spans(found[kind]), number=len(found[kind]))
        for kind in Effect
        if kind in found
    )
