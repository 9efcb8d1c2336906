"""A recipe made into a model and its inputs: the same numbers on every release.

A recipe is data: the class, the config as `save_pretrained` writes it, and inputs. Weights are
filled by name, so that they do not depend on the order in which a release makes its modules, nor on
how it initialises them.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import pathlib
import tempfile
import zlib
from typing import TYPE_CHECKING, Any

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
_NORM_LIKE = 0.1
_GAIN = 1.0


def config_of(recipe: Mapping[str, Any]) -> Any:
    """Return the config of a recipe; raises whatever the release raises of it."""
    content = copy.deepcopy(recipe["config"])  # some configs take parts out of what they read
    kind = transformers.CONFIG_MAPPING[recipe["type"]]
    return kind.from_dict(content)


def build(recipe: Mapping[str, Any], *, seed: int = 0) -> Any:
    """Return the model in fp32 and in eval mode, its weights filled by name."""
    torch.manual_seed(seed)
    model = getattr(transformers, recipe["class"])(config_of(recipe))
    model = model.to(torch.float32)
    fill(model, seed)
    return model.eval()


def saved_weights(model: Any) -> dict[str, list[int]]:
    """Return the names and shapes under which this release saves the weights of a model.

    Empty where it saves them in several files, or cannot.
    """
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        path = pathlib.Path(folder) / "model.safetensors"
        if not path.exists():
            return {}
        with safe_open(path, framework="pt") as file:
            return {name: list(file.get_slice(name).get_shape()) for name in sorted(file.keys())}


def write_checkpoint(recipe: Mapping[str, Any], folder: str, seed: int = 0) -> None:
    """Write what the home of a recipe would have saved: its config, and weights under its names."""
    weights = {
        name: values(name, torch.Size(shape), seed) for name, shape in recipe["weights"].items()
    }
    path = pathlib.Path(folder)
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    config = {**recipe["config"], "architectures": [recipe["class"]]}
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")


def fill(model: torch.nn.Module, seed: int = 0) -> None:
    """Fill each parameter from its name and a seed.

    Matrices keep the variance of what passes through them (normal, 1/sqrt(fan in)), one-dimensional
    weights lie around 1, biases and all others around 0. Buffers stay as the library made them.
    Tied parameters are filled once, under the first of their names in alphabetical order. Positions
    that are not trained are computed, not learned, and some are not even saved: they stay, too.
    """
    done: set[int] = set()
    named = sorted(model.named_parameters(remove_duplicate=False))
    for name, parameter in named:
        computed = not parameter.requires_grad and "position" in name
        if id(parameter) in done or computed or not parameter.is_floating_point():
            continue
        done.add(id(parameter))
        with torch.no_grad():
            parameter.copy_(values(name, parameter.shape, seed))


def values(name: str, shape: torch.Size, seed: int) -> torch.Tensor:
    """Return the values of a parameter, by its name and shape."""
    drawn = torch.randn(shape, generator=_generator(name, seed))
    last = name.rpartition(".")[2]
    if len(shape) >= 2:
        fan_in = max(1, math.prod(shape[1:]))
        return drawn * (_GAIN / math.sqrt(fan_in))
    if last == "weight":
        return 1 + _NORM_LIKE * drawn
    return _NORM_LIKE * drawn


def _generator(name: str, seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(f"{seed}:{name}".encode()))


def inputs_of(
    recipe: Mapping[str, Any], *, part: str = "inputs", dtype: torch.dtype = torch.float32
) -> dict[str, Any]:
    """Return the inputs of a recipe; floats in `dtype`.

    `part` is `inputs`, or `targets` for what a loss needs beside them (empty where none is known).
    """
    return {name: _made(name, spec, dtype) for name, spec in recipe.get(part, {}).items()}


def _made(name: str, spec: Any, dtype: torch.dtype) -> Any:
    """Return the value of one specification.

    `{"ids": nested integers}`, `{"bools": nested 0 and 1}`, `{"normal": shape}`,
    `{"uniform": shape}` (0 to 1), `{"floats": nested numbers}`, `{"list": specifications}`;
    anything else stands for itself.
    """
    if not isinstance(spec, dict):
        return spec
    ((kind, value),) = spec.items()
    if kind == "list":
        return [_made(f"{name}.{at}", each, dtype) for at, each in enumerate(value)]
    generator = _generator(name, 0)
    made = {
        "ids": lambda: torch.tensor(value, dtype=torch.long),
        "bools": lambda: torch.tensor(value, dtype=torch.bool),
        "normal": lambda: torch.randn(value, generator=generator).to(dtype),
        "uniform": lambda: torch.rand(value, generator=generator).to(dtype),
        "floats": lambda: torch.tensor(value, dtype=torch.float32).to(dtype),
    }
    return made[kind]()


def floats(outputs: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the floating-point tensors of what a forward pass returned, each with its path.

    Caches are left out: how they are laid out is a matter of the release.
    """
    if isinstance(outputs, torch.Tensor):
        if outputs.is_floating_point():
            yield name, outputs
    elif isinstance(outputs, dict):
        for key, value in outputs.items():
            if "past_key_values" not in str(key) and "cache" not in str(key):
                yield from floats(value, f"{name}.{key}" if name else str(key))
    elif isinstance(outputs, (list, tuple)):
        for at, value in enumerate(outputs):
            yield from floats(value, f"{name}[{at}]")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Let the library print nothing below an error, and no progress bars."""
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(before)
