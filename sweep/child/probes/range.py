"""What the narrow range of fp16 loses where fp32 computes: padding, gradients, wide activations."""

from __future__ import annotations

from typing import Any

import torch

from repromatrix.sweep.child import recipe as recipes
from repromatrix.sweep.child.probes.gradients import training
from repromatrix.sweep.child.probes.half import _in_fp32, _of_real, _padded
from repromatrix.sweep.child.probes.subject import (
    COARSE,
    ProbeDiffers,
    ProbeSkipped,
    Subject,
    agree,
    outputs,
)

_WIDE = 1024.0
"""The largest activation of the wide pass; its square is not in fp16."""
_ROOM = torch.finfo(torch.float16).max / 4


def padded_fp16(subject: Subject) -> None:
    """Give a model in fp16 a batch that is padded on the left."""
    inputs = _padded(subject)
    wanted = _in_fp32(subject, inputs)
    found = outputs(subject.model().to(torch.float16), inputs)
    agree(subject, _of_real(found), wanted, COARSE, rounded=torch.float16)


def backward_padded_fp16(subject: Subject) -> None:
    """Compute gradients in fp16 of a batch that is padded on the left."""
    inputs = _padded(subject)
    _in_fp32(subject, inputs)
    try:
        plain = _gradients(subject, inputs, torch.float32)
    except ProbeSkipped:
        raise
    except Exception as error:
        msg = f"fp32 does not train ({type(error).__name__})"
        raise ProbeSkipped(msg) from error
    small = {name for name, value in plain.items() if value.abs().max() < _ROOM}
    found = _gradients(subject, inputs, torch.float16)
    lost = [name for name in small & found.keys() if not found[name].isfinite().all()]
    if lost:
        msg = f"{len(lost)} of {len(found)} gradients are not finite, such as {min(lost)}"
        raise ProbeDiffers(msg)


def _gradients(
    subject: Subject, inputs: dict[str, Any], dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    model = training(subject.model().to(dtype))
    given = {**inputs, **({"use_cache": False} if subject.accepts("use_cache") else {})}
    found = _of_real(dict(recipes.floats(model(**given))))
    if not any(value.requires_grad for value in found.values()):
        msg = "no output has a gradient"
        raise ProbeSkipped(msg)
    torch.stack([value.float().square().mean() for value in found.values()]).sum().backward()
    named = model.named_parameters()
    return {name: value.grad for name, value in named if value.grad is not None}


def wide_fp16(subject: Subject) -> None:
    """Widen what enters the first layer: where all of fp32 fits into fp16, so must its result."""
    _ = subject.reference
    model, peak = subject.model(), _Peak()
    try:
        embeddings = model.get_input_embeddings()
        scale = _WIDE / float(embeddings.weight.abs().max())
    except (NotImplementedError, AttributeError) as error:
        msg = "it has no token embeddings"
        raise ProbeSkipped(msg) from error
    with torch.no_grad():
        embeddings.weight.mul_(scale)
    hooks = [module.register_forward_hook(peak) for module in model.modules()]
    wanted = outputs(model, subject.inputs())
    for hook in hooks:
        hook.remove()
    if peak.value > _ROOM:
        msg = f"fp32 reaches {peak.value:.2g}"
        raise ProbeSkipped(msg)
    found = outputs(model.to(torch.float16), subject.inputs(torch.float16))
    agree(subject, found, wanted, COARSE, rounded=torch.float16)


class _Peak:
    """The largest finite value that a module returned."""

    def __init__(self) -> None:
        self.value = 0.0

    def __call__(self, _: Any, __: Any, found: Any) -> None:
        for _name, value in recipes.floats(found):
            finite = value[value.isfinite() & (value > torch.finfo(torch.float32).min / 2)]
            if len(finite):
                self.value = max(self.value, float(finite.abs().max()))
