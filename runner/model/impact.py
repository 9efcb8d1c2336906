"""What a silent failure costs: the quantities of `measured` that say so in every case alike."""

from __future__ import annotations

import math
from enum import StrEnum


class Impact(StrEnum):
    """A quantity that a case measures before it asserts anything; the reference is fp32."""

    LOGITS = "logits_relative_error"
    """Norm of the difference of the logits from those in fp32, over the norm of those."""
    OUTPUT = "output_relative_error"
    """The same of the output of a model, or of a part of one, without logits."""
    TOKENS = "tokens_changed"
    """Share of positions at which another token, or code, is the most probable one."""
    NONFINITE = "nonfinite_share"
    """Share of logits, outputs or gradients that are NaN or infinite."""
    LOSS = "loss_fall"
    """One minus the last loss over the first, of a few steps of training."""

    @property
    def words(self) -> str:
        """What it is, for a reader."""
        match self:
            case Impact.LOGITS:
                return "relative error of the logits"
            case Impact.OUTPUT:
                return "relative error of the output"
            case Impact.TOKENS:
                return "tokens that change"
            case Impact.NONFINITE:
                return "values that are NaN or infinite"
            case Impact.LOSS:
                return "fall of the loss"

    def told(self, low: float, high: float) -> str:
        """Return the range of some values: relative errors as numbers, shares as percentages."""
        ends = dict.fromkeys(self._written(value) for value in (low, high))
        return " to ".join(ends)

    def _written(self, value: float) -> str:
        if not math.isfinite(value):
            return "not finite"
        is_error = self in {Impact.LOGITS, Impact.OUTPUT}
        return f"{value:.2g}" if is_error else f"{100 * value:.3g} %"
