"""Generation: each kind of cache against none."""

from __future__ import annotations

from typing import Any

import torch

from repromatrix.sweep.child.probes.subject import (
    ProbeDiffers,
    ProbeSkipped,
    Subject,
    outputs,
    refusing,
)

_TOKENS = 6


def _generated(subject: Subject, model: Any, inputs: dict[str, Any], **options: Any) -> Any:
    if not model.can_generate():
        msg = "it does not generate"
        raise ProbeSkipped(msg)
    asked = {
        "max_new_tokens": _TOKENS,
        "min_new_tokens": _TOKENS,
        "do_sample": False,
        "num_beams": 1,
        "pad_token_id": 0,
        **options,
    }
    inputs = {name: value for name, value in inputs.items() if not name.startswith("decoder_")}
    torch.manual_seed(subject.seed)
    with torch.no_grad():
        found = refusing(lambda: model.generate(**inputs, **asked))
    return getattr(found, "sequences", found)


def _uncached(subject: Subject) -> Any:
    """Return what fp32 generates without a cache; raises ProbeSkipped where it does not."""
    _ = subject.reference
    try:
        return _generated(subject, subject.model(), subject.inputs(), use_cache=False)
    except ProbeSkipped:
        raise
    except Exception as error:
        msg = f"fp32 does not generate without a cache ({type(error).__name__})"
        raise ProbeSkipped(msg) from error


def _same(found: Any, wanted: Any, subject: Subject) -> None:
    if not isinstance(found, torch.Tensor) or found.is_floating_point():
        msg = "it generates no tokens"
        raise ProbeSkipped(msg)
    if found.shape != wanted.shape:
        msg = f"{list(found.shape)} tokens, without a cache {list(wanted.shape)}"
        raise ProbeDiffers(msg)
    subject.value = float((found != wanted).double().mean())
    if subject.value:
        msg = f"{subject.value:.0%} of the tokens are others than without a cache"
        raise ProbeDiffers(msg, subject.value)


def cached(subject: Subject) -> None:
    """Compare with what is generated without a cache."""
    wanted = _uncached(subject)
    _same(_generated(subject, subject.model(), subject.inputs(), use_cache=True), wanted, subject)


def static(subject: Subject) -> None:
    """Compare a static cache with none."""
    _with_cache(subject, "static")


def sliding(subject: Subject) -> None:
    """Compare a sliding cache with none, where the model has a window."""
    try:
        window = getattr(subject.model().config.get_text_config(), "sliding_window", None)
    except ValueError:  # several texts, or a window per layer
        window = None
    if not window:
        msg = "it has no sliding window"
        raise ProbeSkipped(msg)
    _with_cache(subject, "sliding_window")


def _with_cache(subject: Subject, name: str) -> None:
    wanted = _uncached(subject)
    found = _generated(subject, subject.model(), subject.inputs(), cache_implementation=name)
    _same(found, wanted, subject)


def quantised(subject: Subject) -> None:
    """Generate with a quantised cache where its package is installed."""
    _uncached(subject)
    _generated(subject, subject.model(), subject.inputs(), cache_implementation="quantized")


def _in_16_bit(subject: Subject, *, autocast: bool, **options: Any) -> None:
    _cached_in_fp32(subject, **options)
    model = subject.model()
    if not autocast:
        model = model.to(torch.bfloat16)
    inputs = subject.inputs(torch.float32 if autocast else torch.bfloat16)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            outputs(model, inputs)
    except Exception as error:
        msg = f"a forward pass fails already ({type(error).__name__})"
        raise ProbeSkipped(msg) from error
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        _generated(subject, model, inputs, **options)


def _cached_in_fp32(subject: Subject, **options: Any) -> None:
    _ = subject.reference
    try:
        _generated(subject, subject.model(), subject.inputs(), **options)
    except ProbeSkipped:
        raise
    except Exception as error:
        msg = f"fp32 does not generate so ({type(error).__name__})"
        raise ProbeSkipped(msg) from error


def generate_bf16(subject: Subject) -> None:
    """Generate with weights in bf16."""
    _in_16_bit(subject, autocast=False)


def generate_autocast(subject: Subject) -> None:
    """Generate under autocast."""
    _in_16_bit(subject, autocast=True)


def static_bf16(subject: Subject) -> None:
    """Generate with weights in bf16 and a static cache."""
    _in_16_bit(subject, autocast=False, cache_implementation="static")


def static_autocast(subject: Subject) -> None:
    """Generate under autocast with a static cache."""
    _in_16_bit(subject, autocast=True, cache_implementation="static")
