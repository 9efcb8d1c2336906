"""The closed vocabularies: precision, device, what happened in a cell, and what it means."""

from __future__ import annotations

import functools
from enum import StrEnum


class Precision(StrEnum):
    """The floating-point format that a cell stands for."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"

    @property
    def dtype(self) -> str:
        """Torch's name of the format, without its module."""
        match self:
            case Precision.FP32:
                return "float32"
            case Precision.BF16:
                return "bfloat16"
            case Precision.FP16:
                return "float16"


class Device(StrEnum):
    """Where a cell computes."""

    CPU = "cpu"
    CUDA = "cuda"


class Reading(StrEnum):
    """What an outcome says of the code under test."""

    GOOD = "good"
    BAD = "bad"
    SILENT = "silent"
    """The case cannot judge, or never computed in its precision."""
    UNKNOWN = "unknown"
    """The machine decided, repeats disagree, or it was not run."""
    ABSENT = "absent"
    """The case is not applicable."""
    UNASKED = "unasked"
    """No device, release or stack was asked."""

    @functools.cached_property
    def fails(self) -> bool | None:
        """Whether the code fails; None where nothing is known that could be relied on."""
        match self:
            case Reading.GOOD:
                return False
            case Reading.BAD:
                return True
            case Reading.SILENT | Reading.UNKNOWN | Reading.ABSENT | Reading.UNASKED:
                return None


class Outcome(StrEnum):
    """What happened in a cell.

    Every question about an outcome is answered here: who adds one is led by mypy to `reading`,
    `was_run` and `verb`, and to what pages show of it.
    """

    PASSES = "passes"
    FAILS = "fails"
    TIMES_OUT = "times-out"
    CRASHES = "crashes"
    OUT_OF_MEMORY = "out-of-memory"
    DECLINES = "declines"
    NOT_APPLICABLE = "not-applicable"
    NOT_MEASURED = "not-measured"
    """It needs a device that nobody asked: whether it fails is not known."""
    UNBUILDABLE = "unbuildable"
    NOT_RUN = "not-run"
    NOT_DUE = "not-due"
    """No rule asks for it to be measured, and no published result answers."""

    # Asked for every cell of the table, several times: looked up once per member.
    @functools.cached_property
    def reading(self) -> Reading:
        """What it says of the code, where the case computed in its precision."""
        match self:
            case Outcome.PASSES:
                return Reading.GOOD
            case Outcome.FAILS | Outcome.CRASHES | Outcome.TIMES_OUT:
                return Reading.BAD
            case Outcome.DECLINES:
                return Reading.SILENT
            case Outcome.OUT_OF_MEMORY | Outcome.UNBUILDABLE | Outcome.NOT_RUN | Outcome.NOT_DUE:
                return Reading.UNKNOWN
            case Outcome.NOT_APPLICABLE:
                return Reading.ABSENT
            case Outcome.NOT_MEASURED:
                return Reading.UNASKED

    @functools.cached_property
    def was_run(self) -> bool:
        """Whether a process ran the case."""
        match self:
            case (
                Outcome.PASSES
                | Outcome.FAILS
                | Outcome.TIMES_OUT
                | Outcome.CRASHES
                | Outcome.OUT_OF_MEMORY
                | Outcome.DECLINES
            ):
                return True
            case (
                Outcome.NOT_APPLICABLE
                | Outcome.NOT_MEASURED
                | Outcome.UNBUILDABLE
                | Outcome.NOT_RUN
                | Outcome.NOT_DUE
            ):
                return False

    @property
    def verb(self) -> str:  # noqa: PLR0911 - a table: one return per kind of outcome
        """How a sentence says it: `passes`, `times out`, `cannot be built`."""
        match self:
            case Outcome.PASSES | Outcome.FAILS | Outcome.CRASHES:
                return self.value
            case Outcome.TIMES_OUT:
                return "times out"
            case Outcome.OUT_OF_MEMORY:
                return "runs out of memory"
            case Outcome.DECLINES:
                return "declines to judge"
            case Outcome.NOT_APPLICABLE:
                return "is not applicable"
            case Outcome.NOT_MEASURED:
                return "was not measured"
            case Outcome.UNBUILDABLE:
                return "cannot be built"
            case Outcome.NOT_RUN:
                return "was not run"
            case Outcome.NOT_DUE:
                return "is not due"

    @functools.cached_property
    def is_failure(self) -> bool:
        """Whether the code under test misbehaved."""
        return self.reading is Reading.BAD

    @functools.cached_property
    def is_evidence(self) -> bool:
        """Whether it says something of the case: it was run, and the machine did not decide."""
        return self.was_run and self.reading is not Reading.UNKNOWN

    @functools.cached_property
    def blames_machine(self) -> bool:
        """Whether the machine decided, not the code: never a regression, never a pass."""
        unasked = self in {Outcome.NOT_RUN, Outcome.NOT_DUE}
        return self.reading is Reading.UNKNOWN and not unasked


class Exercised(StrEnum):
    """Whether the cell computed in the precision that it stands for."""

    YES = "yes"
    NO = "no"
    EMPTY = ""


def reading_of(outcome: Outcome, exercised: Exercised, *, unstable: bool) -> Reading:
    """Return what a cell says of the code, with how it computed and whether repeats agree."""
    if unstable:
        return Reading.UNKNOWN
    reading = outcome.reading
    return Reading.SILENT if exercised is Exercised.NO and reading.fails is not None else reading


class Verdict(StrEnum):
    """What an outcome means against the expectation; computed when read, never stored."""

    AS_EXPECTED = "as-expected"
    REGRESSED = "regressed"
    FIXED = "fixed"
    CHANGED = "changed"
    NOT_APPLICABLE = "not-applicable"
    UNPROVEN = "unproven"

    @property
    def is_unexpected(self) -> bool:
        """Whether a run that contains it ends with exit code 1."""
        return self in {Verdict.REGRESSED, Verdict.FIXED, Verdict.CHANGED}
