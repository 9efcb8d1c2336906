"""Weights in 16 bit from the start: how they are initialised, padded batches, the Trainer."""

from __future__ import annotations

import math
import tempfile
from typing import Any

import torch
import transformers

from repromatrix.sweep.child import recipe as recipes
from repromatrix.sweep.child.probes.subject import (
    COARSE,
    ProbeDiffers,
    ProbeSkipped,
    Subject,
    agree,
    outputs,
)
from repromatrix.sweep.child.probes.trainer import _trainer as make_trainer

_PADDED = 3
_MASKS = {"input_ids": "attention_mask", "decoder_input_ids": "decoder_attention_mask"}


def initialised_bf16(subject: Subject) -> None:
    """Make a new model while bf16 is the default dtype, as loading one without weights does."""
    _demand_finite(_new(subject, torch.float32), ProbeSkipped)
    _demand_finite(_new(subject, torch.bfloat16), ProbeDiffers)


def _new(subject: Subject, dtype: torch.dtype) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        kind = getattr(transformers, subject.recipe["class"])
        return kind(recipes.config_of(subject.recipe))
    finally:
        torch.set_default_dtype(before)


def _demand_finite(model: Any, told: type[Exception]) -> None:
    wrong = [name for name, value in model.named_parameters() if not value.isfinite().all()]
    if wrong:
        msg = f"{len(wrong)} parameters are not finite, such as {wrong[0]}"
        raise told(msg)


def padded_bf16(subject: Subject) -> None:
    """Give a model in bf16 a batch that is padded on the left."""
    inputs = _padded(subject)
    wanted = _in_fp32(subject, inputs)
    found = outputs(subject.model().to(torch.bfloat16), inputs)
    agree(subject, _of_real(found), wanted, COARSE, rounded=torch.bfloat16)


def padded_autocast(subject: Subject) -> None:
    """Run a batch that is padded on the left under autocast."""
    inputs, model = _padded(subject), subject.model()
    wanted = _in_fp32(subject, inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = outputs(model, inputs)
    agree(subject, _of_real(found), wanted, COARSE, rounded=torch.bfloat16)


def _padded(subject: Subject) -> dict[str, Any]:
    """Return inputs with masked tokens before the texts; raises ProbeSkipped for others."""
    _ = subject.reference
    inputs = subject.inputs()
    masks = {name: mask for name, mask in _MASKS.items() if name in inputs}
    if set(inputs) - {*masks, *masks.values(), "use_cache", "return_dict"} or not masks:
        msg = "its inputs are more than a text"
        raise ProbeSkipped(msg)
    if any(inputs[name].ndim != 2 or not subject.accepts(mask) for name, mask in masks.items()):
        msg = "it takes no attention mask"
        raise ProbeSkipped(msg)
    for name, mask in masks.items():
        ids = inputs[name]
        filler = ids[:, :1].repeat(1, _PADDED)
        real = inputs.get(mask, torch.ones_like(ids))
        inputs[name] = torch.cat([filler, ids], 1)
        inputs[mask] = torch.cat([torch.zeros_like(filler), real], 1)
    return inputs


def _in_fp32(subject: Subject, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Return what fp32 gives for a padded batch; raises ProbeSkipped where that is nothing."""
    try:
        found = _of_real(outputs(subject.model(), inputs))
    except Exception as error:
        msg = f"fp32 does not take padding ({type(error).__name__})"
        raise ProbeSkipped(msg) from error
    if not found or not all(value.isfinite().all() for value in found.values()):
        msg = "fp32 gives no finite output per token"
        raise ProbeSkipped(msg)
    return found


def _of_real(found: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return what stands at tokens that are not padding."""
    return {
        name: value[:, _PADDED:]
        for name, value in found.items()
        if name in {"logits", "last_hidden_state", "prediction_logits"} and value.ndim == 3
    }


def evaluated_half(subject: Subject) -> None:
    """Evaluate a model whose weights are in bf16 under the Trainer's autocast."""
    with tempfile.TemporaryDirectory() as folder:
        _evaluate(subject, folder, torch.float32)
    with tempfile.TemporaryDirectory() as folder:
        _evaluate(subject, folder, torch.bfloat16)


def _evaluate(subject: Subject, folder: str, dtype: torch.dtype) -> None:
    try:
        trainer = make_trainer(subject, folder, bf16=dtype == torch.bfloat16)
        trainer.model.to(dtype)
        loss = trainer.evaluate().get("eval_loss")
    except ProbeSkipped:
        raise
    except Exception as error:
        if dtype != torch.float32:
            raise
        msg = f"fp32 is not evaluated ({type(error).__name__})"
        raise ProbeSkipped(msg) from error
    if loss is None or not math.isfinite(loss):
        msg = f"the loss of an evaluation is {loss}"
        raise ProbeDiffers(msg)
