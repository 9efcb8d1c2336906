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


class Outcome(StrEnum):
    """What happened in a cell."""

    PASSES = "passes"
    FAILS = "fails"
    TIMES_OUT = "times-out"
    CRASHES = "crashes"
    OUT_OF_MEMORY = "out-of-memory"
    DECLINES = "declines"
    NOT_APPLICABLE = "not-applicable"
    UNBUILDABLE = "unbuildable"
    NOT_RUN = "not-run"

    @property
    def blames_machine(self) -> bool:
        """Whether the machine decided, not the code: never a regression, never a pass."""
        match self:
            case Outcome.OUT_OF_MEMORY | Outcome.UNBUILDABLE:
                return True
            case (
                Outcome.PASSES
                | Outcome.FAILS
                | Outcome.TIMES_OUT
                | Outcome.CRASHES
                | Outcome.DECLINES
                | Outcome.NOT_APPLICABLE
                | Outcome.NOT_RUN
            ):
                return False

    # Asked for every cell of the table, several times: looked up once per member.
    @functools.cached_property
    def is_failure(self) -> bool:
        """Whether the code under test misbehaved."""
        return self is Outcome.FAILS or self is Outcome.CRASHES or self is Outcome.TIMES_OUT

    @functools.cached_property
    def was_run(self) -> bool:
        """Whether a process ran the case."""
        return not (
            self is Outcome.NOT_APPLICABLE or self is Outcome.UNBUILDABLE or self is Outcome.NOT_RUN
        )

    @functools.cached_property
    def is_evidence(self) -> bool:
        """Whether it says something of the case: it was run, and the machine did not decide."""
        return self.was_run and not self.blames_machine


class Exercised(StrEnum):
    """Whether the cell computed in the precision that it stands for."""

    YES = "yes"
    NO = "no"
    EMPTY = ""


class Verdict(StrEnum):
    """What an outcome means against the expectation; computed when read, never stored."""

    AS_EXPECTED = "as-expected"
    REGRESSED = "regressed"
    FIXED = "fixed"
    CHANGED = "changed"
    NOT_APPLICABLE = "not-applicable"
    UNPROVEN = "unproven"

    @property
    def is_surprise(self) -> bool:
        """Whether a run that contains it ends with exit code 1."""
        match self:
            case Verdict.REGRESSED | Verdict.FIXED | Verdict.CHANGED:
                return True
            case Verdict.AS_EXPECTED | Verdict.NOT_APPLICABLE | Verdict.UNPROVEN:
                return False
