"""What a case still lacks, in the order in which its author can mend it: sentences. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from repromatrix.runner.judging.lint import crosses, lacking
from repromatrix.runner.judging.verdicts import Judged, described
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.observation import UNPUBLISHED
from repromatrix.runner.model.outcomes import Outcome
from repromatrix.runner.text import join, plural


def missing(case: Case, judged: Sequence[Judged], unmeasured: Collection[str]) -> Iterator[str]:
    """Yield what a sound case lacks, and the command that gives it; nothing where it lacks nothing.

    `judged` are its measured cells, `unmeasured` its thresholds without a margin over seeds.
    """
    name = case.stem
    current = [row for row in judged if not row.stale]
    if not current:
        yield f"It was not measured as it stands. Run `nox -s matrix -- --case {name}`."
        return
    unexpected = sum(row.verdict.is_unexpected for row in current)
    if unexpected:
        fix = f"Run `nox -s accept -- {name}` and review the difference."
        yield f"Unexpected: {unexpected} of {plural(len(current), 'result')}. {fix}"
    lacks = lacking(current)
    yield from (f"It is not proven: {lack}." for lack in lacks)
    if not lacks and not crosses(current):
        yield (
            "It is not proven across releases: no precision both fails as described and passes."
            " Try releases before the first that is measured, or name pairs in `environments`."
        )
    yield from _unsaid(case)
    yield from _idle_workarounds(case, current)
    if unmeasured:
        texts = join([*unmeasured])
        yield f"Not measured over several seeds: {texts}. Run `nox -s checks -- chance`."
    if any(row.seen.source in UNPUBLISHED for row in current):
        yield "Some results are not published. Run `nox -s publish`."


def _unsaid(case: Case) -> Iterator[str]:
    """Yield what the block could say and does not."""
    for number, entry in enumerate(case.block.fails, 1):
        if not entry.where:
            yield f"Entry {number} of `fails` does not say in which function it happens (`where`)."
        ends = any("<" in specifier.operator for text in entry.when for specifier in text.specifier)
        if ends and not entry.fixed_by:
            yield f"Entry {number} of `fails` does not say what fixed it (`fixed-by`)."
    claimed = {claim.report for claim in case.block.claims}
    if silent := [report for report in case.block.reports if report not in claimed]:
        yield f"No claim is recorded of {join(silent)}."


def _idle_workarounds(case: Case, judged: Sequence[Judged]) -> Iterator[str]:
    """Yield the workarounds that pass in no cell in which the plain case fails as described."""
    failing = {
        row.seen.cell._replace(workaround="")
        for row in judged
        if not row.seen.cell.workaround and row.entry and described(row.entry, row.seen)
    }
    works = {
        row.seen.cell.workaround
        for row in judged
        if row.seen.outcome is Outcome.PASSES and row.seen.cell._replace(workaround="") in failing
    }
    for workaround in case.block.workarounds:
        if failing and workaround not in works:
            yield f"The workaround {workaround} passes in no cell in which the plain case fails."
