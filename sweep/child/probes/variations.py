"""Variations of the usual model: tools wrap, mask, cast and adapt it, and settings are chosen."""

from __future__ import annotations

import copy
import functools
import re
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import transformers

from repromatrix.sweep.child import recipe as recipes
from repromatrix.sweep.child.probes.subject import (
    COARSE,
    ROUNDING,
    ProbeDiffers,
    ProbeSkipped,
    Subject,
    agree,
    error_of,
    outputs,
    refusing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_TEXT = {"input_ids", "attention_mask", "decoder_input_ids", "use_cache", "return_dict"}
_TRAINED = [5, 6, 7]
"""Tokens that an adapter trains."""
_SHARE = re.compile(r"(pct|percent|partial|share)")
_NO_SETTING = re.compile(
    r"^_|^(use_cache|return_dict|output_|torchscript|tie_|is_encoder_decoder|is_decoder"
    r"|add_cross_attention|gradient_|remove_invalid)|dropout|kernel"
)
"""What is about the way of running a model, not about what it computes."""
_VISIBLE = 10 * ROUNDING


class Setting(NamedTuple):
    """A field of a config with a value that is not the default, and changes what is computed."""

    says: str
    config: Mapping[str, Any]


def default_dtype(subject: Subject) -> None:
    """Save in bf16, load without asking for a dtype, and pass what a processor makes."""
    wanted, inputs = subject.reference, subject.inputs()
    values = [value for value in inputs.values() if isinstance(value, torch.Tensor)]
    if not any(value.is_floating_point() for value in values):
        msg = "it has no inputs in floating point"
        raise ProbeSkipped(msg)
    with subject.saved(torch.bfloat16) as folder:
        model = getattr(transformers, subject.recipe["class"]).from_pretrained(folder).eval()
    agree(subject, outputs(model, inputs), wanted, COARSE, rounded=torch.bfloat16)


def norms_fp32(subject: Subject) -> None:
    """Run a model in bf16 under autocast after its norms were cast to fp32."""
    wanted, model = subject.reference, subject.model().to(torch.bfloat16)
    norms = [module for module in model.modules() if "Norm" in type(module).__name__]
    if not norms:
        msg = "it has no norms"
        raise ProbeSkipped(msg)
    for norm in norms:
        norm.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = outputs(model, subject.inputs())
    agree(subject, found, wanted, COARSE, rounded=torch.bfloat16)


def mask_4d(subject: Subject) -> None:
    """Give eager attention in bf16 a causal mask to be added to its scores, in fp32."""
    _ = subject.reference
    inputs = subject.inputs()
    is_text = "input_ids" in inputs and not set(inputs) - _TEXT
    if not is_text or "decoder_input_ids" in inputs or not subject.accepts("attention_mask"):
        msg = "its inputs are more than a text, or take no mask"
        raise ProbeSkipped(msg)
    rows, length = inputs["input_ids"].shape
    empty = torch.full((rows, 1, length, length), torch.finfo(torch.float32).min)
    masked = {**inputs, "attention_mask": empty.triu(1)}
    with subject.saved() as folder:
        plain, model = (
            refusing(functools.partial(subject.load, folder, dtype, attn_implementation="eager"))
            for dtype in (torch.float32, torch.bfloat16)
        )
    try:
        wanted = outputs(plain, masked)
    except Exception as error:
        msg = f"fp32 takes no such mask ({type(error).__name__})"
        raise ProbeSkipped(msg) from error
    agree(subject, outputs(model, masked), wanted, COARSE, rounded=torch.bfloat16)


def trainable_tokens(subject: Subject) -> None:
    """Let some tokens be trained: before they are, nothing may change."""
    try:
        from peft import TrainableTokensConfig, get_peft_model
    except ImportError as error:
        msg = "peft has no adapter of tokens yet"
        raise ProbeSkipped(msg) from error
    wanted, model = subject.reference, subject.model()
    try:
        embeddings = model.get_input_embeddings()
    except (NotImplementedError, AttributeError):
        embeddings = None
    named = [name for name, module in model.named_modules() if module is embeddings]
    if embeddings is None or not named or "input_ids" not in subject.inputs():
        msg = "it has no token embeddings"
        raise ProbeSkipped(msg)
    config = TrainableTokensConfig(token_indices=_TRAINED, target_modules=named[:1])
    adapted = refusing(lambda: get_peft_model(model, config)).eval()
    agree(subject, outputs(adapted, subject.inputs()), wanted, ROUNDING)


def prepared(subject: Subject) -> None:
    """Let accelerate prepare a model in bf16, as a training loop does."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    wanted, model = subject.reference, subject.model().to(torch.bfloat16)
    AcceleratorState._reset_state(reset_partial_state=True)  # noqa: SLF001 - it is kept in the class
    ready = Accelerator(mixed_precision="bf16", cpu=True).prepare_model(model)
    found = outputs(ready, subject.inputs(torch.bfloat16))
    half = [name for name, value in found.items() if value.dtype != torch.float32]
    if half:
        msg = f"{len(half)} outputs are not in fp32, such as {half[0]}"
        raise ProbeDiffers(msg)
    agree(subject, found, wanted, COARSE, rounded=torch.bfloat16)


def settings_reloaded(subject: Subject) -> None:
    """Save and load a model with each of its settings."""

    def reload(model: Any, folder: str) -> None:
        wanted = outputs(model, subject.inputs())
        model.save_pretrained(folder)
        loaded = subject.load(folder, torch.float32)
        agree(subject, outputs(loaded, subject.inputs()), wanted, ROUNDING)

    _each(subject, reload)


def settings_eager_sdpa(subject: Subject) -> None:
    """Compute with each setting by eager attention and by SDPA."""

    def compare(model: Any, folder: str) -> None:
        model.save_pretrained(folder)
        eager, sdpa = (
            outputs(subject.load(folder, torch.float32, attn_implementation=name), subject.inputs())
            for name in ("eager", "sdpa")
        )
        agree(subject, sdpa, eager, 2 * ROUNDING)

    _each(subject, compare)


def _each(subject: Subject, holds: Callable[[Any, str], None]) -> None:
    """Demand it of every setting; raises ProbeSkipped where it does not hold without any."""
    if not (some := _settings(subject)):
        msg = "no setting changes what it computes"
        raise ProbeSkipped(msg)
    with tempfile.TemporaryDirectory() as folder:
        try:
            holds(subject.model(), folder)
        except Exception as error:
            msg = f"nor does it without a setting ({type(error).__name__})"
            raise ProbeSkipped(msg) from error
    broken: list[str] = []
    for setting in some:
        model = recipes.build({**subject.recipe, "config": setting.config}, seed=subject.seed)
        with tempfile.TemporaryDirectory() as folder:
            try:
                holds(model, folder)
            except ProbeSkipped:
                continue
            except ProbeDiffers:
                if _is_steady(model, subject.inputs()):
                    broken.append(setting.says)
            except (ValueError, NotImplementedError, ImportError):
                continue  # it is refused
    if broken:
        msg = f"not with {', '.join(sorted(broken))}"
        raise ProbeDiffers(msg, float(len(broken)))


def _is_steady(model: Any, inputs: Mapping[str, Any]) -> bool:
    """Say whether two forward passes give the same numbers."""
    first, second = outputs(model, inputs), outputs(model, inputs)
    return all(torch.equal(value, second[name]) for name, value in first.items())


@functools.cache
def _settings(subject: Subject) -> tuple[Setting, ...]:
    """Return the settings of a model of texts that change its numbers, each alone.

    With eager attention: a setting that SDPA ignores changes nothing there.
    """
    if set(subject.inputs()) - _TEXT:
        msg = "its inputs are more than a text"
        raise ProbeSkipped(msg)
    reference = subject.reference
    found = []
    for says, config in _changed(subject.recipe):
        try:
            model = _eager({**subject.recipe, "config": config}, subject.seed)
            if error_of(outputs(model, subject.inputs()), reference) > _VISIBLE:
                found.append(Setting(says, config))
        except Exception:  # noqa: S112 - not every combination is a model
            continue
    return tuple(found)


def _eager(recipe: Mapping[str, Any], seed: int) -> Any:
    config = recipes.config_of(recipe)
    config._attn_implementation = "eager"  # noqa: SLF001 - no other way is in every release
    model = getattr(transformers, recipe["class"])(config).to(torch.float32)
    recipes.fill(model, seed)
    return model.eval()


def _changed(recipe: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield configs with one other setting: a switch turned, a share made another.

    Of the recipe's own fields, and of those that the release has beside them.
    """
    done: set[tuple[str, ...]] = set()
    for config in (recipe["config"], recipes.config_of(recipe).to_dict()):
        for path, name, value in _fields(config, ()):
            if (*path, name) in done:
                continue
            done.add((*path, name))
            if isinstance(value, bool):
                other: Any = not value
            elif isinstance(value, float) and 0 < value <= 1 and _SHARE.search(name):
                other = 0.5 if value != 0.5 else 1.0
            else:
                continue
            tree = copy.deepcopy(config)
            functools.reduce(lambda node, part: node[part], path, tree)[name] = other
            yield f"{name}={other}", tree


def _fields(
    node: Mapping[Any, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    for name, value in node.items():
        if isinstance(value, dict):
            yield from _fields(value, (*path, name))
        elif isinstance(name, str) and not _NO_SETTING.search(name):
            yield path, name, value
