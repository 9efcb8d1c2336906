"""Tiny configs and inputs for an architecture, found without knowledge of single models."""

from __future__ import annotations

import contextlib
import inspect
import json
import linecache
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import transformers

from repromatrix.sweep.child import amend, fields, guess_inputs, repairs, tokens, universe
from repromatrix.sweep.child.later import LATER
from repromatrix.sweep.child.recipe import (
    build,
    config_of,
    floats,
    inputs_of,
    quiet,
    saved_weights,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PARAMETERS = 5_000_000
REPAIRS = 9
SECONDS = 40.0
LARGEST_IMAGE = 256
STRATEGIES = ("names", "capped", "uniform", "layers")
_UNWANTED = ("transformers_version", "torch_dtype", "dtype", "architectures", "_name_or_path")


class NotBuiltError(Exception):
    """No recipe: `kind` says at what it failed."""

    def __init__(self, kind: str, reason: str) -> None:
        """Keep the kind of obstacle apart from the reason, which is cut where it is long."""
        super().__init__(reason)
        self.kind, self.reason = kind, reason[:500]


def make(request: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe for a type, or why there is none.

    `{"recipe": …, "parameters": how many, "repairs": what errors taught}`, or
    `{"refused": reason, "kind": …, "tried": reasons}` of the first class and strategy.
    A request that holds a recipe is for another class on it.
    """
    if "recipe" in request:
        from repromatrix.sweep.child import further  # what is there builds on this module

        return further.make(request)
    kind, hints = request["type"], request.get("hints") or {}
    classes = universe.types()["types"].get(kind, {}).get("classes", {})
    names = [hints["class"]] if "class" in hints else _fitting(kind, universe.ranked(classes))
    until = time.monotonic() + SECONDS
    first: NotBuiltError | None = None
    trail = []
    with quiet():
        for name in names:
            for strategy in STRATEGIES:
                try:
                    return varied(partial(Attempt, kind, name, strategy, hints), until)
                except NotBuiltError as error:
                    first = first or error
                    trail.append(f"{name} {strategy} {error.kind}: {error.reason}")
                    if error.kind == "package" or time.monotonic() > until:
                        break
            if time.monotonic() > until:
                break
    first = first or NotBuiltError("other", "no model class")
    return {"refused": first.reason, "kind": first.kind, "tried": trail}


def _fitting(kind: str, names: list[str]) -> list[str]:
    """Return classes with those first that are made of just this config."""
    own = transformers.CONFIG_MAPPING[kind]

    def strange(name: str) -> bool:
        with contextlib.suppress(Exception):
            return getattr(transformers, name).config_class is not own
        return False

    return sorted(names, key=strange)


def varied(attempt: Callable[[], Attempt], until: float) -> dict[str, Any]:
    """Return a recipe by one strategy: the usual inputs, then those of another layout."""
    first = attempt()
    try:
        return first.made(until)
    except NotBuiltError as error:
        if error.kind != "inputs":
            raise
        refused = error
    for sizes, left_out in guess_inputs.layouts(first.guess):
        with contextlib.suppress(NotBuiltError):
            other = attempt()
            other.guess.sizes.update(sizes)
            other.guess.refused += left_out
            other.done.append(f"layout {sizes} without {left_out}")
            return other.made(until)
    raise refused


class Attempt:
    """One class and one strategy: tries, reads the error, and tries again."""

    def __init__(self, kind: str, name: str, strategy: str, hints: Mapping[str, Any]) -> None:
        """Make the config small and read the arguments of forward; raises NotBuiltError."""
        self.kind, self.name, self.strategy, self.hints = kind, name, strategy, hints
        self.done: list[str] = []
        self.inputs: dict[str, Any] = {}
        self.phase = "constructor"
        self.tree = self._small()
        self.guess = guess_inputs.Guess(self.tree, *self._arguments())
        self.guess.tokens.update(hints.get("tokens", {}))

    def made(self, until: float) -> dict[str, Any]:
        """Return the recipe; raises NotBuiltError."""
        seen = set()
        for _ in range(REPAIRS + 1):
            try:
                return self._once()
            except NotBuiltError:
                raise
            except Exception as error:
                said = _said(error)
                if said in seen or time.monotonic() > until or not self._repair(error):
                    raise NotBuiltError(_kind_of(error, self.phase), said) from error
                seen.add(said)
        raise NotBuiltError(self.phase, f"not mended by {REPAIRS} repairs: {self.done[-1]}")

    def _small(self) -> dict[str, Any]:
        try:
            tree = _default(self.kind, self.hints.get("config", {}))
        except Exception as error:
            raise NotBuiltError(_kind_of(error, "constructor"), _said(error)) from error
        small = fields.tiny(tree, self.strategy)
        tokens.move_tokens(small)
        tokens.place_tokens(small)
        merge(small, self.hints.get("config", {}))
        return small

    def _arguments(self) -> tuple[list[str], list[str]]:
        try:
            forward = inspect.signature(getattr(transformers, self.name).forward)
        except Exception as error:
            raise NotBuiltError(_kind_of(error, "constructor"), _said(error)) from error
        given = [one for one in list(forward.parameters.values())[1:] if one.kind not in {2, 4}]
        return [one.name for one in given], [one.name for one in given if one.default is one.empty]

    def _once(self) -> dict[str, Any]:
        self.phase = "constructor"
        recipe = {
            "type": self.kind,
            "class": self.name,
            "home": transformers.__version__,
            "strategy": self.strategy,
            "config": self._config(),
            "inputs": {},
            "targets": {},
        }
        self._weigh(recipe)
        model = build(recipe)
        parameters = sum(one.numel() for one in model.parameters())
        if parameters > PARAMETERS:
            too_large = "size"
            raise NotBuiltError(too_large, f"{parameters} parameters")
        self.phase = "inputs"
        recipe["inputs"] = self._inputs(model)
        _check(model, recipe)
        recipe["targets"] = self._targets(model, recipe)
        if later := self._later(recipe["inputs"]):
            recipe |= {"inputs": {**recipe["inputs"], **later}, LATER: [*later]}
        with contextlib.suppress(Exception):  # what cannot be saved has no checkpoint
            recipe |= self._checkpoint(model)
        return {"recipe": recipe, "parameters": parameters, "repairs": self.done}

    def _later(self, made: dict[str, Any]) -> dict[str, Any]:
        """Return inputs that this release does not take, and later ones want."""
        return guess_inputs.later(self.guess, made)

    def _checkpoint(self, model: Any) -> dict[str, Any]:
        """Return what else a recipe holds: the names under which its weights are saved."""
        return {"weights": saved_weights(model)}

    def _config(self) -> dict[str, Any]:
        """Return the config as it would be saved."""
        config = transformers.CONFIG_MAPPING[self.kind].from_dict(json.loads(json.dumps(self.tree)))
        saved: dict[str, Any] = _clean(json.loads(config.to_json_string(use_diff=True)))
        saved["model_type"] = self.kind
        self.guess.tree = json.loads(json.dumps(config.to_dict(), default=str))
        return saved

    def _weigh(self, recipe: dict[str, Any]) -> None:
        """Refuse a model that is too large before it takes memory."""
        config = config_of(recipe)
        try:
            with torch.device("meta"):
                model = getattr(transformers, self.name)(config)
        except Exception:
            # Some cannot be made without memory: those are tried in small sizes alone.
            if self.strategy in {"uniform", "layers"}:
                raise
            return
        parameters = sum(one.numel() for one in model.parameters())
        if parameters > PARAMETERS:
            self.phase = "size"
            largest = max(model.named_parameters(), key=lambda one: one[1].numel())
            reason = f"{parameters} parameters, largest {largest[0]} {tuple(largest[1].shape)}"
            raise NotBuiltError(self.phase, reason)

    def _inputs(self, model: Any) -> dict[str, Any]:
        self.inputs = guess_inputs.inputs(self.guess)
        if self._count_features(model, self.inputs):
            self.inputs = guess_inputs.inputs(self.guess)
        return {**self.inputs, **self.hints.get("inputs", {})}

    def _count_features(self, model: Any, made: dict[str, Any]) -> bool:
        """Ask the model how many features a modality has; say whether that is news."""
        changed = False
        for modality in guess_inputs.MODALITIES:
            ask = getattr(model, f"get_{modality}_features", None)
            known = self.guess.tokens.get(modality)
            if ask is None or known or guess_inputs.token_of(self.guess, modality) is None:
                continue
            with contextlib.suppress(Exception), torch.no_grad():
                takes = inspect.signature(ask).parameters
                given = {
                    one: getattr(model.config, one) for one in takes if hasattr(model.config, one)
                }
                given |= inputs_of({"inputs": {one: made[one] for one in made if one in takes}})
                rows = _rows(ask(**given))
                self.guess.tokens[modality] = rows // guess_inputs.BATCH
                changed = True
        return changed

    def _targets(self, model: Any, recipe: dict[str, Any]) -> dict[str, Any]:
        targets = guess_inputs.targets(self.guess, recipe["inputs"], self.name)
        if targets:
            with contextlib.suppress(Exception), torch.no_grad():
                both = {**inputs_of(recipe), **inputs_of({"inputs": targets})}
                if torch.isfinite(model(**both).loss).all():
                    return targets
        return {}

    def _repair(self, error: Exception) -> bool:
        """Change what the error asks for; say whether anything was changed."""
        line = _line(error)
        said = str(error)
        if isinstance(error, ImportError) and amend.swap_backbone(self.tree):
            self.done.append(f"backbone swapped: {_said(error)[:120]}")
            return True
        if (
            isinstance(error, TypeError)
            and self.phase == "constructor"
            and amend.fill_open(self.tree, line)
        ):
            self.done.append(f"open sizes filled: {_said(error)[:120]}")
            return True
        for what, value in repairs.changes(said, line, self.guess.arguments):
            if self._apply(what, value):
                self.done.append(f"{what} {value}: {_said(error)[:120]}")
                return True
        return False

    def _apply(self, what: str, value: Any) -> bool:
        guess = self.guess
        if what in {"wanted", "refused"}:
            listed = guess.wanted if what == "wanted" else guess.refused
            if value in listed or (what == "wanted" and not guess_inputs.known(value)):
                return False
            listed.append(value)
            return True
        if what == "tokens":
            modality, rows = value
            before = guess.tokens.get(modality)
            guess.tokens[modality] = rows // guess_inputs.BATCH
            return bool(before != guess.tokens[modality])
        if what == "sizes":
            name, number = value
            changed = bool(guess.sizes.get(name) != number)
            guess.sizes[name] = number
            return changed
        if what == "layout":
            changed = any(guess.sizes.get(name) != number for name, number in value.items())
            guess.sizes.update(value)
            return changed
        return self._apply_to_config(what, value)

    def _apply_to_rotary(self, what: str, value: Any) -> bool:
        if what == "rotary":
            return amend.open_rotary(self.tree, cut=value)
        return amend.cut_sections(self.tree, *value)

    def _apply_to_config(self, what: str, value: Any) -> bool:
        if what in {"sections", "rotary"}:
            return self._apply_to_rotary(what, value)
        if what == "field":
            return amend.set_field(self.tree, value)
        if what == "attribute":
            owner = _path(transformers.CONFIG_MAPPING[self.kind].from_dict(self.tree), value[0])
            return owner is not None and amend.set_field(self.tree, value[1], owner)
        if what == "nested":
            config, name, number = value
            inner = self.tree.get(config)
            if isinstance(inner, dict) and inner.get(name) != number:
                inner[name] = number
                return True
        if what == "grow":
            return self._grow()
        return what == "dimension" and guess_inputs.resize(self.guess, self.inputs, *value)

    def _grow(self) -> bool:
        """Double the size of images and the length of audio; say whether they may be so large."""
        sizes = self.guess.sizes
        sizes["image"] = 2 * guess_inputs.image_size(self.guess)[0]
        sizes["samples"] = 2 * sizes.get("samples", guess_inputs.SAMPLES)
        return sizes["image"] <= LARGEST_IMAGE


def _path(config: Any, name: str, at: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    """Return where in a config the one of a class lies."""
    if type(config).__name__ == name:
        return at
    for key, value in vars(config).items():
        if isinstance(value, transformers.PretrainedConfig):
            found = _path(value, name, (*at, key))
            if found is not None:
                return found
    return None


def _default(kind: str, hinted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usual config; where that is refused, the one with what is hinted."""
    make_config = transformers.CONFIG_MAPPING[kind]
    try:
        config = make_config()
    except Exception:
        if not hinted:
            raise
        config = make_config(**hinted)
    tree: dict[str, Any] = json.loads(json.dumps(config.to_dict(), default=str))
    return tree


def merge(tree: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Lay fields over a config, in place."""
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(tree.get(name), dict):
            merge(tree[name], value)
        else:
            tree[name] = value


def _clean(value: Any) -> Any:
    value = fields.infinite(value)
    if isinstance(value, dict):
        return {
            name: _clean(one)
            for name, one in value.items()
            if name not in _UNWANTED and not name.startswith("_attn_implementation")
        }
    return [_clean(one) for one in value] if isinstance(value, list) else value


def _check(model: Any, recipe: dict[str, Any]) -> None:
    with torch.no_grad():
        outputs = model(**inputs_of(recipe))
    found, other = list(floats(outputs)), "other"
    if not found:
        raise NotBuiltError(other, "no floating-point outputs")
    for name, value in found:
        if value.isnan().any() or not value.isfinite().any():  # some mask with infinity
            raise NotBuiltError(other, f"outputs that are not numbers: {name}")


def _rows(features: Any) -> int:
    """Return how many features an answer of `get_image_features` and its like holds."""
    if isinstance(features, torch.Tensor):
        return int(features.numel() // features.shape[-1])
    pooled = getattr(features, "pooler_output", None)
    if pooled is not None:
        return _rows(pooled)
    if hasattr(features, "last_hidden_state"):
        return _rows(features.last_hidden_state)
    return sum(_rows(one) for one in features if one is not None)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error} [{_place(error)}]"


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    found = traceback.extract_tb(error.__traceback__)
    return [one for one in found if "/transformers/" in one.filename] or list(found)


def _place(error: BaseException) -> str:
    frames = _frames(error)
    if not frames:
        return ""
    last = frames[-1]
    return f"{last.filename.rpartition('/')[2].removesuffix('.py')}:{last.name}:{last.lineno}"


def _line(error: BaseException) -> str:
    frames = _frames(error)
    return linecache.getline(frames[-1].filename, frames[-1].lineno or 0) if frames else ""


def _kind_of(error: Exception, phase: str) -> str:
    said = str(error)
    if isinstance(error, ImportError) or "requires the" in said:
        return "package"
    if "Strict" in type(error).__name__ or "validation error" in said:
        return "strict"
    return phase
