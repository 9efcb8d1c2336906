"""Making and loading a model."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

from repromatrix.sweep.child import recipe as recipes
from repromatrix.sweep.child.probes.subject import (
    ROUNDING,
    ProbeDiffers,
    ProbeSkipped,
    Subject,
    agree,
    outputs,
    refusing,
    summary_of,
)


def _nan_filled() -> None:
    """Let memory that nothing wrote read as NaN, so that it is seen."""
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True


def _demand_finite(model: Any) -> None:
    named = [*model.named_parameters(), *model.named_buffers()]
    lost = [
        name
        for name, tensor in named
        if tensor.is_floating_point() and tensor.isnan().any() and tensor.device.type != "meta"
    ]
    if lost:
        msg = (
            f"{len(lost)} of {len(named)} tensors hold uninitialised memory: {', '.join(lost[:3])}"
        )
        raise ProbeDiffers(msg)


def initialised(subject: Subject) -> None:
    """Build the model as its class does, in memory that reads as NaN until it is written."""
    _nan_filled()
    kind = getattr(transformers, subject.recipe["class"])
    _demand_finite(kind(recipes.config_of(subject.recipe)))


def missing_initialised(subject: Subject) -> None:
    """Load a checkpoint without the last of the model's matrices."""
    model = subject.model()
    tied = set(getattr(model, "_tied_weights_keys", None) or ())
    matrices = [
        name
        for name, parameter in model.named_parameters()
        if parameter.ndim >= 2 and not any(name.endswith(key) for key in tied)
    ]
    if not matrices:
        msg = "it has no matrix of its own"
        raise ProbeSkipped(msg)
    lacking = matrices[-1]
    kept = {name: value for name, value in model.state_dict().items() if name != lacking}
    with subject.saved() as folder:
        if len(list(Path(folder).glob("*.safetensors"))) != 1:
            msg = "its checkpoint is no single file"
            raise ProbeSkipped(msg)
        model.save_pretrained(folder, state_dict=kept)
        _nan_filled()
        _demand_finite(subject.load(folder, torch.float32))


def reload_fp32(subject: Subject) -> None:
    """Save and load in fp32, and compare the outputs."""
    wanted = subject.reference
    with subject.saved() as folder:
        loaded = subject.load(folder, torch.float32)
    agree(subject, outputs(loaded, subject.inputs()), wanted, ROUNDING)


def reload_bf16(subject: Subject) -> None:
    """Save in bf16, load as saved, and compare every parameter bit by bit."""
    _reload(subject, torch.bfloat16)


def reload_fp16(subject: Subject) -> None:
    """Save in fp16, load as saved, and compare every parameter bit by bit."""
    _reload(subject, torch.float16)


def _reload(subject: Subject, dtype: torch.dtype) -> None:
    wanted = dict(subject.model().to(dtype).named_parameters())
    with subject.saved(dtype) as folder:
        loaded = dict(subject.load(folder, "auto").named_parameters())
    lost = [
        name
        for name, value in wanted.items()
        if name in loaded and not torch.equal(loaded[name].to(dtype), value)
    ]
    if lost:
        msg = f"{len(lost)} of {len(wanted)} parameters have other values: {', '.join(lost[:3])}"
        raise ProbeDiffers(msg)


def keep_fp32(subject: Subject) -> None:
    """Load in fp16 and look at what the model's class says that it keeps."""
    kept = [
        *(getattr(subject.model(), "_keep_in_fp32_modules", None) or ()),
        *(getattr(subject.model(), "_keep_in_fp32_modules_strict", None) or ()),
    ]
    if not kept:
        msg = "it keeps nothing in fp32"
        raise ProbeSkipped(msg)
    with subject.saved() as folder:
        loaded = subject.load(folder, torch.float16)
    lost = [
        name
        for name, parameter in loaded.named_parameters()
        if set(name.split(".")) & set(kept) and parameter.dtype is torch.float16
    ]
    if lost:
        msg = f"{len(lost)} parameters are in fp16: {', '.join(lost[:3])}"
        raise ProbeDiffers(msg)


def checkpoint(subject: Subject) -> None:
    """Load what the recipe's home would have saved; its numbers are compared between releases.

    Unlike `outputs-fp32` this follows weights that a later release calls otherwise.
    """
    if not subject.recipe.get("weights"):
        msg = "its home does not save it in one file"
        raise ProbeSkipped(msg)
    with tempfile.TemporaryDirectory() as folder:
        recipes.write_checkpoint(subject.recipe, folder, subject.seed)
        loaded, told = subject.load(folder, torch.float32, output_loading_info=True)
    lost = {
        what: sorted(map(str, told.get(what) or ()))
        for what in ("missing_keys", "unexpected_keys", "mismatched_keys")
    }
    if any(lost.values()):
        parts = [f"{len(keys)} {what.replace('_', ' ')}" for what, keys in lost.items() if keys]
        first = next(keys[0] for keys in lost.values() if keys)
        msg = f"{', '.join(parts)}, such as {first}"
        raise ProbeDiffers(msg)
    if not subject.is_random:
        subject.summary = summary_of(outputs(loaded, subject.inputs()))


def tied(subject: Subject) -> None:
    """Load a model whose embeddings are tied, and compare the storages."""
    model = subject.model()
    if not _is_tied(model):
        msg = "its embeddings are not tied"
        raise ProbeSkipped(msg)
    with subject.saved() as folder:
        loaded = subject.load(folder, torch.float32)
    if not _is_tied(loaded):
        msg = "input and output embeddings are two tensors after loading"
        raise ProbeDiffers(msg)


def _is_tied(model: Any) -> bool:
    try:
        first, last = model.get_input_embeddings(), model.get_output_embeddings()
    except (NotImplementedError, AttributeError):
        return False
    weights = [getattr(layer, "weight", None) for layer in (first, last)]
    pointers = {weight.data_ptr() for weight in weights if weight is not None}
    return None not in weights and len(pointers) == 1


def resized(subject: Subject) -> None:
    """Add eight tokens and compare the logits of those that were there."""
    model, wanted = subject.model(), subject.reference
    if "logits" not in wanted or "input_ids" not in subject.inputs():
        msg = "it has no logits over tokens"
        raise ProbeSkipped(msg)
    try:
        before = model.get_input_embeddings().weight.shape[0]
    except (NotImplementedError, AttributeError) as error:
        msg = "it has no token embeddings"
        raise ProbeSkipped(msg) from error
    if wanted["logits"].shape[-1] != before:
        msg = "its logits are not over its tokens"
        raise ProbeSkipped(msg)
    refusing(lambda: model.resize_token_embeddings(before + 8))
    found = outputs(model, subject.inputs())["logits"]
    if found.shape[-1] != before + 8:
        msg = f"logits over {found.shape[-1]} tokens, not over {before + 8}"
        raise ProbeDiffers(msg)
    agree(subject, {"logits": found[..., :before]}, {"logits": wanted["logits"]}, ROUNDING)
