"""Backward passes: gradient checkpointing, and gradients in 16 bit."""

from __future__ import annotations

from typing import Any

import torch

from repromatrix.runner.sweep.child import recipe as recipes
from repromatrix.runner.sweep.child.probes.subject import (
    ROUNDING,
    ProbeDiffers,
    ProbeSkipped,
    Subject,
    agree,
)

_RANDOM = ("layerdrop", "encoder_layerdrop", "decoder_layerdrop", "mask_time_prob")
"""Settings by which a model is random in training: they are switched off where there are such."""


def _training(model: Any) -> Any:
    """Put a model into training mode, with nothing random left and normalisation as in eval."""
    for name in _RANDOM:
        for holder in (model, model.config):
            if isinstance(getattr(holder, name, None), float):
                setattr(holder, name, 0.0)
    if hasattr(model.config, "apply_spec_augment"):
        model.config.apply_spec_augment = False
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):  # noqa: SLF001
            module.p = 0.0
        elif isinstance(module, torch.nn.modules.batchnorm._BatchNorm):  # noqa: SLF001
            module.eval()
        for name in ("dropout", "attention_dropout", "drop_prob", "layerdrop", "drop_path_rate"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model


def _backward(subject: Subject, model: Any, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Return the gradients of the mean square of all outputs, and that loss, by name."""
    torch.manual_seed(subject.seed)
    inputs = {**subject.inputs(dtype)}
    if subject.accepts("use_cache"):
        inputs["use_cache"] = False
    found = list(recipes.floats(model(**inputs)))
    graded = [value.float().square().mean() for _, value in found if value.requires_grad]
    if not graded:
        msg = "no output has a gradient"
        raise ProbeSkipped(msg)
    loss = torch.stack(graded).sum()
    loss.backward()
    gradients = {
        name: parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    return {"loss": loss.detach(), **gradients}


def _plain(subject: Subject) -> dict[str, torch.Tensor]:
    """Return gradients in fp32, twice the same; raises ProbeSkipped where there are none."""
    _ = subject.reference
    try:
        first = _backward(subject, _training(subject.model()), torch.float32)
        second = _backward(subject, _training(subject.model()), torch.float32)
    except ProbeSkipped:
        raise
    except Exception as error:
        msg = f"fp32 does not train ({type(error).__name__})"
        raise ProbeSkipped(msg) from error
    if not torch.allclose(first["loss"], second["loss"]):
        msg = "its loss is random"
        raise ProbeSkipped(msg)
    return first


def _checkpointed(subject: Subject, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    model = _training(subject.model())
    if not getattr(model, "supports_gradient_checkpointing", False):
        msg = "it does not support gradient checkpointing"
        raise ProbeSkipped(msg)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return _backward(subject, model.to(dtype), dtype)


def checkpointing(subject: Subject) -> None:
    """Compare loss and gradients with and without checkpointing, in fp32."""
    wanted = _plain(subject)
    found = _checkpointed(subject, torch.float32)
    _demand_all(found, wanted)
    agree(subject, found, wanted, 20 * ROUNDING)


def checkpointing_bf16(subject: Subject) -> None:
    """Train in bf16 with checkpointing; it must work where bf16 does without."""
    wanted = _half(subject)
    found = _checkpointed(subject, torch.bfloat16)
    _demand_all(found, wanted)


def _half(subject: Subject) -> dict[str, torch.Tensor]:
    _plain(subject)
    try:
        return _backward(subject, _training(subject.model()).to(torch.bfloat16), torch.bfloat16)
    except Exception as error:
        msg = f"bf16 does not train ({type(error).__name__})"
        raise ProbeSkipped(msg) from error


def backward_bf16(subject: Subject) -> None:
    """Compare which parameters have a finite gradient in bf16 and in fp32."""
    wanted = _plain(subject)
    found = _backward(subject, _training(subject.model()).to(torch.bfloat16), torch.bfloat16)
    _demand_all(found, wanted)


def backward_autocast(subject: Subject) -> None:
    """Compare which parameters have a finite gradient under autocast and in fp32."""
    wanted, model = _plain(subject), _training(subject.model())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = _backward(subject, model, torch.float32)
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
