"""Backward passes: gradient checkpointing, and gradients in 16 bit."""

from __future__ import annotations

import torch

from repromatrix.sweep.child.probes.gradients import backward, plain_gradients, training
from repromatrix.sweep.child.probes.subject import (
    ROUNDING,
    ProbeDiffers,
    ProbeSkipped,
    Subject,
    agree,
)


def _checkpointed(subject: Subject, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    model = training(subject.model())
    if not getattr(model, "supports_gradient_checkpointing", False):
        msg = "it does not support gradient checkpointing"
        raise ProbeSkipped(msg)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return backward(subject, model.to(dtype), dtype)


def checkpointing(subject: Subject) -> None:
    """Compare loss and gradients with and without checkpointing, in fp32."""
    wanted = plain_gradients(subject)
    found = _checkpointed(subject, torch.float32)
    _demand_all(found, wanted)
    agree(subject, found, wanted, 20 * ROUNDING)


def checkpointing_bf16(subject: Subject) -> None:
    """Train in bf16 with checkpointing; it must work where bf16 does without."""
    wanted = _half(subject)
    found = _checkpointed(subject, torch.bfloat16)
    _demand_all(found, wanted)


def _half(subject: Subject) -> dict[str, torch.Tensor]:
    plain_gradients(subject)
    try:
        return backward(subject, training(subject.model()).to(torch.bfloat16), torch.bfloat16)
    except Exception as error:
        msg = f"bf16 does not train ({type(error).__name__})"
        raise ProbeSkipped(msg) from error


def backward_bf16(subject: Subject) -> None:
    """Compare which parameters have a finite gradient in bf16 and in fp32."""
    wanted = plain_gradients(subject)
    found = backward(subject, training(subject.model()).to(torch.bfloat16), torch.bfloat16)
    _demand_all(found, wanted)


def backward_autocast(subject: Subject) -> None:
    """Compare which parameters have a finite gradient under autocast and in fp32."""
    wanted, model = plain_gradients(subject), training(subject.model())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = backward(subject, model, torch.float32)
    _demand_all(found, wanted)


def _demand_all(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    lost = sorted(wanted.keys() - found.keys())
    if lost:
        msg = f"{len(lost)} of {len(wanted)} gradients are lost: {', '.join(lost[:3])}"
        raise ProbeDiffers(msg)
    broken = [
        name
        for name, value in wanted.items()
        if value.isfinite().all() and not found[name].isfinite().all()
    ]
    if broken:
        msg = f"{len(broken)} of {len(wanted)} gradients are not finite: {', '.join(broken[:3])}"
        raise ProbeDiffers(msg)
