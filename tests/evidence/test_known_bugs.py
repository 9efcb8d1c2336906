"""What an issue says of a case, as evidence has it."""

from __future__ import annotations

from factories import BREAKS, case, cell, environment, environments, seen

from repromatrix.runner.evidence.commits import REPOSITORIES, ChangeKey, PinnedCommit
from repromatrix.runner.evidence.known_bugs import failing_series, known_bug
from repromatrix.runner.judging.issue import KnownBug
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.cell import Environment, Source
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision

RELEASES = environments("4.49.0", "4.50.0", "4.50.1", "4.51.0")
TOY = case(BREAKS)
BROKEN = PinnedCommit(
    *("toy_breaks", "", "bf16", "cpu", "break", "4.50.1", "4.51.0", "transformers"),
    commit="b" * 40,
    date="2026-01-02",
    title="Tidy *up* (#8)",
    pull_request="8",
)


def rows(
    signs: str, precision: Precision = Precision.BF16, device: Device = Device.CPU
) -> list[Observation]:
    """Return a row per release: `+` passes, `-` fails."""
    outcomes = {"+": Outcome.PASSES, "-": Outcome.FAILS}
    return [
        seen(outcomes[sign], cell(name, precision, device=device))
        for name, sign in zip(RELEASES, signs, strict=True)
    ]


def told(
    every: list[Observation], of: Case = TOY, held: dict[str, Environment] | None = None
) -> KnownBug:
    """Return what an issue says in bf16."""
    held = held or RELEASES
    series = failing_series(of, held, every, of.block.title)
    commits = {ChangeKey(*BROKEN[:7]): BROKEN}
    return known_bug(of, held, series, Precision.BF16, commits, of.block.title)


def test_the_newest_failure_of_a_live_bug_is_told_with_its_commit() -> None:
    bug = told([*rows("-++-"), *rows("---+", Precision.FP16)])

    assert (bug.package, bug.failing.cell.environment, bug.fixed) == ("transformers", "4.51.0", "")
    assert bug.ranges == [
        "transformers 4.49.0, fixed in 4.50.0",
        "transformers 4.51.0, not fixed",
    ]
    assert bug.also == [Precision.FP16]
    label, url = "bbbbbbbbbbbb (2026-01-02, transformers#8)", f"{REPOSITORIES}/transformers/pull/8"
    assert bug.commits == [f"Broken by [{label}]({url}): Tidy \\*up\\* (#8)."]


def test_a_bug_that_is_fixed_says_where() -> None:
    bug = told(rows("+--+"))

    assert (bug.failing.cell.environment, bug.fixed) == ("4.50.1", "transformers 4.51.0")


def test_a_bug_of_another_package_is_told_by_its_versions() -> None:
    pair = environment("4.50.0+peft0.16.0", source=Source.PAIR, peft="0.16.0")
    held = {"4.50.0": environment("4.50.0", peft="0.15.0"), pair.name: pair}
    blamed = BREAKS.replace("when", 'at-fault = "peft"\nwhen')
    toy = case(f'environments = ["{pair.name}"]\n{blamed}')
    every = [seen(Outcome.FAILS, cell("4.50.0")), seen(Outcome.PASSES, cell(pair.name))]

    bug = told(every, toy, held)

    assert (bug.package, bug.fixed) == ("peft", "peft 0.16.0")
    assert bug.ranges == ["peft 0.15.0, fixed in 0.16.0"]


def test_a_failure_on_the_cpu_is_told_before_one_on_a_gpu() -> None:
    on_gpu = rows("----", device=Device.CUDA)

    assert told(on_gpu).failing.cell.device is Device.CUDA
    assert told([*on_gpu, *rows("+-++")]).failing.cell.device is Device.CPU


def test_nothing_fails_where_only_an_interpreter_of_this_machine_does() -> None:
    mine = environment("mine", source=Source.INTERPRETER)
    every = [*rows("++++"), seen(Outcome.FAILS, cell("mine"))]

    assert failing_series(TOY, {**RELEASES, "mine": mine}, every, TOY.block.title) == {}
