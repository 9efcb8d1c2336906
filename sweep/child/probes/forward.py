"""Forward passes in every way of computing in 16 bit."""

from __future__ import annotations

import torch

from repromatrix.runner.evidence.swept.probes import WEIGHTS
from repromatrix.sweep.child.probes.subject import (
    COARSE,
    ROUNDING,
    ProbeDiffers,
    ProbeSkipped,
    Subject,
    agree,
    outputs,
    summary_of,
    weights_of,
)

_WIDE = 64.0
"""How many times larger embeddings are in the pass that looks for overflow."""


def outputs_fp32(subject: Subject) -> None:
    """Run a forward pass in fp32; its numbers are compared between releases.

    Not those of a model that is random in eval mode.
    """
    model = subject.model()
    found = outputs(model, subject.inputs())
    _demand_numbers(found)
    if not subject.is_random:
        subject.summary = {WEIGHTS: weights_of(model), **summary_of(found)}


def outputs_bf16(subject: Subject) -> None:
    """Cast the model and its inputs to bf16."""
    wanted = subject.reference
    model = subject.model().to(torch.bfloat16)
    found = outputs(model, subject.inputs(torch.bfloat16))
    agree(subject, found, wanted, COARSE, rounded=torch.bfloat16)
    if not subject.is_random:
        subject.summary = {WEIGHTS: weights_of(model), **summary_of(found)}


def loaded_bf16(subject: Subject) -> None:
    """Load the model in bf16, as most users do."""
    _loaded(subject, torch.bfloat16)


def loaded_fp16(subject: Subject) -> None:
    """Load the model in fp16."""
    _loaded(subject, torch.float16)


def _loaded(subject: Subject, dtype: torch.dtype) -> None:
    wanted = subject.reference
    with subject.saved() as folder:
        model = subject.load(folder, dtype)
    agree(subject, outputs(model, subject.inputs(dtype)), wanted, COARSE, rounded=dtype)


def cast_fp16(subject: Subject) -> None:
    """Cast the model and its inputs to fp16."""
    wanted = subject.reference
    found = outputs(subject.model().to(torch.float16), subject.inputs(torch.float16))
    agree(subject, found, wanted, COARSE, rounded=torch.float16)


def raw_bf16(subject: Subject) -> None:
    """Give a model in bf16 the fp32 pixels or audio that a processor makes."""
    if not any(
        isinstance(value, torch.Tensor) and value.is_floating_point()
        for value in subject.inputs().values()
    ):
        msg = "it has no inputs in floating point"
        raise ProbeSkipped(msg)
    wanted = subject.reference
    found = outputs(subject.model().to(torch.bfloat16), subject.inputs())
    agree(subject, found, wanted, COARSE, rounded=torch.bfloat16)


def autocast_bf16(subject: Subject) -> None:
    """Run a model in fp32 under autocast to bf16."""
    _autocast(subject, torch.bfloat16)


def autocast_fp16(subject: Subject) -> None:
    """Run a model in fp32 under autocast to fp16."""
    _autocast(subject, torch.float16)


def _autocast(subject: Subject, dtype: torch.dtype) -> None:
    wanted, model = subject.reference, subject.model()
    with torch.autocast("cpu", dtype=dtype):
        found = outputs(model, subject.inputs())
    agree(subject, found, wanted, COARSE, rounded=dtype)


def cast_back(subject: Subject) -> None:
    """Use a model in bf16, then in fp32 again: nothing of the first use stays behind."""
    model, wanted = subject.model().to(torch.bfloat16), subject.reference
    try:
        outputs(model, subject.inputs(torch.bfloat16))
    except Exception as error:
        msg = f"bf16 does not compute ({type(error).__name__})"
        raise ProbeSkipped(msg) from error
    found = outputs(model.to(torch.float32), subject.inputs())
    agree(subject, found, wanted, COARSE, rounded=torch.bfloat16)


def twice(subject: Subject) -> None:
    """Run the same model on the same inputs twice."""
    wanted, model = subject.reference, subject.model()
    outputs(model, subject.inputs())
    agree(subject, outputs(model, subject.inputs()), wanted, ROUNDING)


def overflow_fp16(subject: Subject) -> None:
    """Widen the embeddings: what bf16 computes must be finite in fp16, too."""
    _ = subject.reference
    model = subject.model()
    widened = 0
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2 and "embed" in name:
            parameter.data.mul_(_WIDE)
            widened += 1
    if not widened:
        msg = "it has no embeddings"
        raise ProbeSkipped(msg)
    try:
        wide = outputs(model.to(torch.bfloat16), subject.inputs(torch.bfloat16))
    except Exception as error:
        msg = f"bf16 does not compute ({type(error).__name__})"
        raise ProbeSkipped(msg) from error
    within = {
        name: value
        for name, value in wide.items()
        if value.isfinite().all() and value.abs().max() < torch.finfo(torch.float16).max / 4
    }
    found = outputs(model.to(torch.float16), subject.inputs(torch.float16))
    _demand_finite({name: value for name, value in found.items() if name in within})


def _demand_finite(found: dict[str, torch.Tensor]) -> None:
    for name, value in found.items():
        if not value.isfinite().all():
            msg = f"{name or 'the output'} is not finite"
            raise ProbeDiffers(msg)


def _demand_numbers(found: dict[str, torch.Tensor]) -> None:
    """Let infinity pass: some models mask with it."""
    for name, value in found.items():
        if value.isnan().any():
            msg = f"{name or 'the output'} is not a number"
            raise ProbeDiffers(msg)
