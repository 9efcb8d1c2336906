"""The Trainer: train, evaluate, save, resume, and what it leaves in the process."""

from __future__ import annotations

import math
import os
import tempfile
from typing import Any

import torch

from repromatrix.sweep.child.probes.subject import ProbeDiffers, ProbeSkipped, Subject

_STEPS = 2


def _samples(subject: Subject) -> list[dict[str, Any]]:
    """Return the batch of a recipe, with its targets, as single samples."""
    _ = subject.reference
    whole = {**subject.inputs(), **subject.targets()}
    tensors = {name: value for name, value in whole.items() if isinstance(value, torch.Tensor)}
    sizes = {len(value) for value in tensors.values() if value.ndim}
    if len(sizes) != 1 or any(not value.ndim for value in tensors.values()):
        msg = "its inputs have no common batch"
        raise ProbeSkipped(msg)
    samples = [{name: value[at] for name, value in tensors.items()} for at in range(sizes.pop())]
    return samples * _STEPS


def _trainer(subject: Subject, folder: str, **options: Any) -> Any:
    from transformers import Trainer, TrainingArguments

    samples = _samples(subject)
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=_STEPS,
        per_device_train_batch_size=2,
        per_device_eval_batch_size=2,
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=subject.seed,
        **options,
    )
    return Trainer(
        model=subject.model(), args=arguments, train_dataset=samples, eval_dataset=samples[:2]
    )


def _trained(subject: Subject, folder: str, **options: Any) -> Any:
    trainer = _trainer(subject, folder, **options)
    if not math.isfinite(trainer.train().training_loss):
        msg = "the loss is not finite"
        raise ProbeDiffers(msg)
    loss = trainer.evaluate().get("eval_loss")
    if loss is None or not math.isfinite(loss):
        msg = f"the loss of an evaluation is {loss}"
        raise ProbeDiffers(msg)
    return trainer


def trainer(subject: Subject) -> None:
    """Train two steps, evaluate, save; then resume from there for one more."""
    with tempfile.TemporaryDirectory() as folder:
        _trained(subject, folder)
    with tempfile.TemporaryDirectory() as folder:
        first = _trainer(subject, folder)
        first.args.save_strategy = "steps"
        first.args.save_steps = first.state.save_steps = 1
        first.train()
        again = _trainer(subject, folder)
        again.args.max_steps = _STEPS + 1
        if not os.path.isdir(f"{folder}/checkpoint-1"):  # noqa: PTH112
            msg = "nothing was saved"
            raise ProbeDiffers(msg)
        again.train(resume_from_checkpoint=f"{folder}/checkpoint-1")


def _in_fp32(subject: Subject) -> None:
    try:
        with tempfile.TemporaryDirectory() as folder:
            _trained(subject, folder)
    except ProbeSkipped:
        raise
    except Exception as error:
        msg = f"fp32 does not train ({type(error).__name__})"
        raise ProbeSkipped(msg) from error


def trainer_bf16(subject: Subject) -> None:
    """Train and evaluate under the Trainer's autocast."""
    _in_fp32(subject)
    with tempfile.TemporaryDirectory() as folder:
        _trained(subject, folder, bf16=True)


def trainer_leaks(subject: Subject) -> None:
    """Look at the settings of the process before and after."""
    _in_fp32(subject)
    before = _settings()
    with tempfile.TemporaryDirectory() as folder:
        _trained(subject, folder, bf16=True)
    left = [name for name, value in _settings().items() if value != before.get(name)]
    if left:
        msg = f"left behind: {', '.join(sorted(left))}"
        raise ProbeDiffers(msg)


def _settings() -> dict[str, object]:
    return {
        "the default dtype": torch.get_default_dtype(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "grad mode": torch.is_grad_enabled(),
        **{name: value for name, value in os.environ.items() if name.startswith("ACCELERATE_")},
    }
