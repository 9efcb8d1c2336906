"""What every probe is given: one architecture, and how it says that something does not hold."""

from __future__ import annotations

import contextlib
import copy
import inspect
import json
import tempfile
import zlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
import transformers

from repromatrix.sweep.child import recipe as recipes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROUNDING = 1e-4
"""Relative error in fp32 that another order of additions explains."""
_REFUSALS = (
    *("not support", "unsupported", "only supported", "requires", "install"),
    *("not compatible with", "incompatible with"),
)
"""Words by which a library says that it does not offer something."""
COARSE = 0.5
"""Relative error in 16 bit that no rounding of a tiny model explains."""


class ProbeSkipped(Exception):  # noqa: N818 - it is no error
    """The probe does not apply; the text says why."""


class ProbeDiffers(Exception):  # noqa: N818 - it is what a probe found
    """What must agree does not; the text says what, `value` by how much."""

    def __init__(self, why: str, value: float | None = None) -> None:
        """Keep the number apart from the sentence."""
        super().__init__(why)
        self.value = value


class Subject:
    """A recipe on the release of this process."""

    def __init__(self, recipe: Mapping[str, Any], seed: int = 0) -> None:
        """Build nothing yet."""
        self.recipe = recipe
        self.seed = seed
        self.summary: dict[str, Any] = {}
        self.value: float | None = None

    @cached_property
    def _built(self) -> Any:
        return recipes.build(self.recipe, seed=self.seed)

    def model(self) -> Any:
        """Return a model of its own, in fp32 and eval mode."""
        return copy.deepcopy(self._built)

    def inputs(self, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
        """Return fresh inputs, floats in a dtype."""
        return recipes.inputs_of(self.recipe, dtype=dtype)

    def targets(self) -> dict[str, Any]:
        """Return what a loss needs beside the inputs; raises ProbeSkipped where it is not known."""
        found = recipes.inputs_of(self.recipe, part="targets")
        if not found:
            msg = "no loss is known for its class"
            raise ProbeSkipped(msg)
        return found

    @cached_property
    def reference(self) -> dict[str, torch.Tensor]:
        """What a forward pass in fp32 gives; raises ProbeSkipped where it cannot be had."""
        try:
            return outputs(self.model(), self.inputs())
        except Exception as error:
            msg = f"fp32 does not compute ({type(error).__name__})"
            raise ProbeSkipped(msg) from error

    @contextlib.contextmanager
    def saved(self, dtype: torch.dtype = torch.float32) -> Iterator[str]:
        """Yield a folder with the model as `save_pretrained` writes it."""
        with tempfile.TemporaryDirectory() as folder:
            self.model().to(dtype).save_pretrained(folder)
            yield folder

    def load(self, folder: str, dtype: torch.dtype | str, **options: Any) -> Any:
        """Return the model loaded in a dtype."""
        kind = getattr(transformers, self.recipe["class"])
        found = kind.from_pretrained(folder, **{dtype_argument(): dtype}, **options)
        return found if isinstance(found, tuple) else found.eval()

    @cached_property
    def is_random(self) -> bool:
        """Whether two forward passes in fp32 and eval mode give different numbers."""
        again = outputs(self.model(), self.inputs())
        return any(not torch.equal(value, again[name]) for name, value in self.reference.items())

    def jump(self, dtype: torch.dtype) -> float:
        """Return the relative error of fp32 outputs when weights and inputs are rounded to `dtype`.

        A model that picks the nearest code, or the best region, is not continuous. Infinite where
        shapes depend on it.
        """
        model = self.model()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(parameter.to(dtype))
        rounded = {
            name: value.float()
            if isinstance(value, torch.Tensor) and value.dtype == dtype
            else value
            for name, value in self.inputs(dtype).items()
        }
        try:
            return error_of(outputs(model, rounded), self.reference)
        except ProbeDiffers:
            return float("inf")

    def accepts(self, argument: str) -> bool:
        """Say whether forward takes an argument by name."""
        return argument in inspect.signature(type(self._built).forward).parameters


def dtype_argument() -> str:
    """Return how `from_pretrained` calls the dtype: `torch_dtype` until 4.56."""
    major, minor = map(int, transformers.__version__.split(".")[:2])
    return "dtype" if (major, minor) >= (4, 56) else "torch_dtype"


def outputs(model: Any, inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the floating-point outputs of a forward pass without gradients, by their paths."""
    with torch.no_grad():
        return {name: value.detach() for name, value in recipes.floats(model(**inputs))}


def error_of(found: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> float:
    """Return the largest relative error (2-norm) over the tensors that both have.

    Raises ProbeDiffers where shapes do, or where something is finite on one side alone.
    """
    largest = 0.0
    for name, right in wanted.items():
        left = found.get(name)
        if left is None:
            continue
        if left.shape != right.shape:
            msg = f"{name or 'the output'} has another shape"
            raise ProbeDiffers(msg)
        one, other = left.to(torch.float64), right.to(torch.float64)
        keep = torch.isfinite(other)
        if not torch.isfinite(one[keep]).all():
            msg = f"{name or 'the output'} is not finite"
            raise ProbeDiffers(msg)
        scale = float(other[keep].norm())
        apart = float((one[keep] - other[keep]).norm())
        largest = max(largest, apart / scale if scale else float(apart > 0))
    return largest


def agree(
    subject: Subject,
    found: Mapping[str, torch.Tensor],
    wanted: Mapping[str, torch.Tensor],
    limit: float,
    *,
    rounded: torch.dtype | None = None,
) -> None:
    """Note how far two results are apart; raises ProbeDiffers beyond a limit.

    Raises ProbeSkipped for models of which two results cannot agree: those that are random in eval
    mode, and, where one was `rounded`, those whose fp32 outputs jump when their weights are.
    """
    apart: ProbeDiffers | None = None
    try:
        subject.value = error_of(found, wanted)
        if subject.value > limit:
            apart = ProbeDiffers(f"relative error {subject.value:.2g}", subject.value)
    except ProbeDiffers as reason:
        apart = reason
    if apart is None:
        return
    if subject.is_random:
        msg = "it is random in eval mode"
        raise ProbeSkipped(msg)
    if rounded and (jump := subject.jump(rounded)) > limit / 2:
        msg = f"rounding its weights changes its fp32 outputs by {jump:.2g} already"
        raise ProbeSkipped(msg)
    raise apart


def summary_of(found: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Return shape, finite share, norm, mean and 8 evenly spaced values of up to 12 tensors."""
    told = {}
    for name, tensor in list(found.items())[:12]:
        flat = tensor.to(torch.float64).flatten()
        finite = torch.isfinite(flat)
        kept = flat[finite]
        at = torch.linspace(0, max(0, len(flat) - 1), 8).long() if len(flat) else []
        told[name] = {
            "shape": list(tensor.shape),
            "finite": float(finite.double().mean()) if len(flat) else 1.0,
            "norm": float(kept.norm()),
            "mean": float(kept.mean()) if len(kept) else 0.0,
            "samples": [_number(float(flat[place])) for place in at],
        }
    return told


def weights_of(model: Any) -> str:
    """Return the identity of the names and shapes by which the weights were filled."""
    named = sorted((name, list(one.shape)) for name, one in model.named_parameters())
    return f"{zlib.crc32(json.dumps(named).encode()):08x}"


def _number(value: float) -> float | None:
    return value if value - value == 0 else None  # JSON knows neither NaN nor infinity


def refusing(call: Callable[[], Any]) -> Any:
    """Return what a call gives; where the library says that it does not support it, skip."""
    try:
        return call()
    except (ValueError, NotImplementedError, ImportError) as error:
        said = str(error).lower()
        if any(word in said for word in _REFUSALS):
            msg = f"refused: {' '.join(str(error).split())[:150]}"
            raise ProbeSkipped(msg) from error
        raise
