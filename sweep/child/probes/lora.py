"""LoRA on all linear layers."""

from __future__ import annotations

import tempfile
from typing import Any

import torch

from repromatrix.sweep.child import recipe as recipes
from repromatrix.sweep.child.probes.gradients import backward, plain_gradients, training
from repromatrix.sweep.child.probes.subject import (
    ROUNDING,
    ProbeDiffers,
    ProbeSkipped,
    Subject,
    agree,
    error_of,
    outputs,
    refusing,
)

_MERGED = 10 * ROUNDING
_VISIBLE = 1e-6


def _adapted(subject: Subject) -> Any:
    """Return the model with an adapter whose matrices are all filled."""
    from peft import LoraConfig, get_peft_model

    _ = subject.reference
    model = subject.model()
    if not any(isinstance(module, torch.nn.Linear) for module in model.modules()):
        msg = "it has no linear layers"
        raise ProbeSkipped(msg)
    config = LoraConfig(r=4, target_modules="all-linear")
    adapted = refusing(lambda: get_peft_model(model, config)).eval()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.copy_(recipes.values(name, parameter.shape, subject.seed))
    return adapted


def lora(subject: Subject) -> None:
    """Demand that an adapter that is not zero changes the output."""
    adapted = _adapted(subject)
    found = outputs(adapted, subject.inputs())
    if error_of(found, subject.reference) < _VISIBLE:
        msg = "the adapter changes nothing"
        raise ProbeDiffers(msg, 0.0)


def lora_everywhere(subject: Subject) -> None:
    """Compare which layers have a gradient without an adapter and which adapters have one."""
    plain = plain_gradients(subject)
    adapted = backward(subject, training(_adapted(subject)), torch.float32)
    trained = {name for name, value in plain.items() if _moves(value)}
    adapters = [name for name in _adapters(subject) if f"{name}.weight" in trained]
    idle = [
        name
        for name in adapters
        if not _moves(adapted.get(f"base_model.model.{name}.lora_B.default.weight"))
    ]
    if idle:
        msg = f"{len(idle)} of {len(adapters)} adapters have no gradient: {', '.join(idle[:3])}"
        raise ProbeDiffers(msg)


def _moves(gradient: torch.Tensor | None) -> bool:
    return gradient is not None and bool((gradient != 0).any())


def _adapters(subject: Subject) -> list[str]:
    """Return the names of the layers that get an adapter."""
    first = "base_model.model."
    names = dict(_adapted(subject).named_modules())
    return [
        name.removeprefix(first).removesuffix(".lora_B.default")
        for name in names
        if name.endswith(".lora_B.default")
    ]


def lora_merged(subject: Subject) -> None:
    """Compare the outputs before and after the adapter is merged."""
    adapted = _adapted(subject)
    wanted = outputs(adapted, subject.inputs())
    agree(subject, outputs(adapted.merge_and_unload(), subject.inputs()), wanted, _MERGED)


def lora_reloaded(subject: Subject) -> None:
    """Save the adapter, load it onto a new model, and compare."""
    from peft import PeftModel

    adapted = _adapted(subject)
    wanted = outputs(adapted, subject.inputs())
    with tempfile.TemporaryDirectory() as folder:
        adapted.save_pretrained(folder)
        loaded = PeftModel.from_pretrained(subject.model(), folder).eval()
    agree(subject, outputs(loaded, subject.inputs()), wanted, ROUNDING)
