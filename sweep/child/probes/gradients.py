"""Gradients of a model in which nothing is random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from repromatrix.sweep.child import recipe as recipes
from repromatrix.sweep.child.probes.subject import ProbeSkipped

if TYPE_CHECKING:
    from repromatrix.sweep.child.probes.subject import Subject

_RANDOM = ("layerdrop", "encoder_layerdrop", "decoder_layerdrop", "mask_time_prob")
"""Settings by which a model is random in training: they are switched off where there are such."""


def training(model: Any) -> Any:
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


def backward(subject: Subject, model: Any, dtype: torch.dtype) -> dict[str, torch.Tensor]:
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


def plain_gradients(subject: Subject) -> dict[str, torch.Tensor]:
    """Return gradients in fp32, twice the same; raises ProbeSkipped where there are none."""
    _ = subject.reference
    try:
        first = backward(subject, training(subject.model()), torch.float32)
        second = backward(subject, training(subject.model()), torch.float32)
    except ProbeSkipped:
        raise
    except Exception as error:
        msg = f"fp32 does not train ({type(error).__name__})"
        raise ProbeSkipped(msg) from error
    if not torch.allclose(first["loss"], second["loss"]):
        msg = "its loss is random"
        raise ProbeSkipped(msg)
    return first
