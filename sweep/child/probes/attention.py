"""Attention implementations, padding and batches: other ways to the same numbers."""

from __future__ import annotations

import functools
from typing import Any

import torch

from repromatrix.sweep.child.probes.subject import (
    ROUNDING,
    ProbeSkipped,
    Subject,
    agree,
    outputs,
    refusing,
)

_PADDED = 3
_PADDING = 5 * ROUNDING


def eager_sdpa(subject: Subject) -> None:
    """Load with each implementation and compare."""
    _ = subject.reference
    found = []
    with subject.saved() as folder:
        for name in ("eager", "sdpa"):
            options = {"attn_implementation": name}
            model = refusing(functools.partial(subject.load, folder, torch.float32, **options))
            found.append(outputs(model, subject.inputs()))
    agree(subject, found[1], found[0], 2 * ROUNDING)


def padding_right(subject: Subject) -> None:
    """Append masked tokens to a text and compare what stands before them."""
    _padded(subject, left=False)


def padding_left(subject: Subject) -> None:
    """Prepend masked tokens to a text, with positions where forward takes them."""
    _padded(subject, left=True)


def _padded(subject: Subject, *, left: bool) -> None:
    inputs = _text(subject)
    if left and not (subject.model().can_generate() and subject.accepts("position_ids")):
        msg = "it takes no positions"
        raise ProbeSkipped(msg)
    ids = inputs["input_ids"]
    mask = inputs.get("attention_mask", torch.ones_like(ids))
    filler = ids[:, :1].repeat(1, _PADDED)
    parts = [filler, ids] if left else [ids, filler]
    masks = [torch.zeros_like(filler), mask] if left else [mask, torch.zeros_like(filler)]
    padded = {**inputs, "input_ids": torch.cat(parts, 1), "attention_mask": torch.cat(masks, 1)}
    if left:
        padded["position_ids"] = (padded["attention_mask"].cumsum(1) - 1).clamp(min=0)
    wanted = _of_tokens(outputs(subject.model(), {**inputs, "attention_mask": mask}), ids.shape)
    found = outputs(subject.model(), padded)
    kept = slice(_PADDED, None) if left else slice(None, ids.shape[1])
    real = {name: found[name][:, kept] for name in wanted if name in found}
    agree(subject, real, wanted, _PADDING)


def _text(subject: Subject) -> dict[str, Any]:
    """Return inputs that are a text alone; raises ProbeSkipped for others."""
    _ = subject.reference
    inputs = subject.inputs()
    names = set(inputs) - {"attention_mask", "use_cache", "return_dict"}
    if names != {"input_ids"} or inputs["input_ids"].ndim != 2:
        msg = "its inputs are more than a text"
        raise ProbeSkipped(msg)
    if not subject.accepts("attention_mask"):
        msg = "it takes no attention mask"
        raise ProbeSkipped(msg)
    return inputs


def _of_tokens(found: dict[str, torch.Tensor], shape: torch.Size) -> dict[str, torch.Tensor]:
    kept = {
        name: value
        for name, value in found.items()
        if name in {"logits", "last_hidden_state", "prediction_logits"} and value.shape[:2] == shape
    }
    if not kept:
        msg = "it has no output per token"
        raise ProbeSkipped(msg)
    return kept


def batch(subject: Subject) -> None:
    """Compute the first sample alone."""
    wanted, inputs = subject.reference, subject.inputs()
    tensors = [value for value in inputs.values() if isinstance(value, torch.Tensor)]
    sizes = {len(value) for value in tensors if value.ndim}
    if len(sizes) != 1 or sizes <= {0, 1}:
        msg = "its inputs have no common batch"
        raise ProbeSkipped(msg)
    size = sizes.pop()
    alone = {
        name: value[:1] if isinstance(value, torch.Tensor) and value.ndim else value
        for name, value in inputs.items()
    }
    found = outputs(subject.model(), alone)
    first = {
        name: value[:1]
        for name, value in wanted.items()
        if value.ndim and len(value) == size and name in found
        # Similarities between the samples of a batch are none of a sample.
        if found[name].shape == (1, *value.shape[1:])
    }
    if not first:
        msg = "it has no output per sample"
        raise ProbeSkipped(msg)
    agree(subject, found, first, _PADDING)
