"""One name for a model: `model_type`, class, hub id or family, in any spelling.

What transformers calls its models is in `models.csv`, which `tools/model_names.py` writes.
"""

from __future__ import annotations

import csv
import difflib
import fnmatch
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from packaging.version import Version

CONTESTED = ""
"""Stands for the type of what several types are called."""
TABLE = Path(__file__).with_name("models.csv")
_GLOB = frozenset("*?[")
_CLASS = re.compile(
    r"(?:For[A-Z]\w*|(?:LMHead|DoubleHeads|PreTrained|Text)?Model|Config"
    r"|(?:Image|Video)?Processor(?:Fast)?|Tokenizer(?:Fast)?)$"
)
"""What a class adds to the name of its model: `Qwen2ForCausalLM`, `GPT2LMHeadModel`."""
_PART = re.compile(r"(_(text|vision|audio|model|encoder|decoder|thinker|talker))+$")
"""What the type of a part of a model ends with: `gemma3_text`."""
_BETWEEN = re.compile(r"[-_.\s]")
_EDITION = re.compile(
    r"(?:\d+(?:\.\d+)?[bmk]|meta|\d+x\d+(?:\.\d+)?b|\d+e|v\d+\.\d+|\d{2,4}|\d-?bit|patch\d+|window\d+"
    r"|tiny|mini|small|base|medium|large|huge|giant|xs|xl|xxl|xxlarge|xlarge|uncased|cased"
    r"|hf|it|pt|instruct|chat|thinking|preview|sft|dpo|qat|unquantized|dynamic|distill"
    r"|bnb|unsloth|awq|gptq|gguf|q\d\w*|w\d+a\d+|n?v?fp\d+|mxfp4|bf16|f16|int\d)",
    re.IGNORECASE,
)
"""The parts of a hub id that tell checkpoints of one model apart: `7B`, `Instruct`, `AWQ`."""
_ACTIVE = re.compile(r"a\d+(?:\.\d+)?[bm]", re.IGNORECASE)
"""The part that gives the active parameters of a mixture of experts: `A3B`."""
_NEAR = 3


class ModelType(NamedTuple):
    """A `model_type` of transformers."""

    name: str
    since: str
    """The first of the releases that were read which has it."""
    until: str
    """The last of them; empty where the newest has it."""
    names: tuple[str, ...]
    """What else it is called, squashed: by classes, and by checkpoints without their editions."""


@cache
def _rows() -> Mapping[str, ModelType]:
    with TABLE.open(encoding="utf-8", newline="") as lines:
        next(lines)
        return {
            kind: ModelType(kind, since, until, (*names.split(),))
            for kind, since, until, names in csv.reader(lines)
        }


def model_types() -> Mapping[str, ModelType]:
    """Return the types of transformers by name."""
    return {name: kind for name, kind in _rows().items() if name != CONTESTED}


@cache
def _by_spelling() -> Mapping[str, str]:
    """Return the type that each squashed name means; a type's own name counts before others."""
    kinds = model_types().values()
    return {name: kind.name for kind in kinds for name in kind.names} | {
        squashed(kind.name): kind.name for kind in kinds
    }


def meant(typed: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the known names that a name or glob means, each in all of its spellings.

    A model that transformers has and `known` does not is its type; nothing where it is no model.
    Case, `-`, `_` and `.` do not count; a class and a hub id stand for their model, a part for the
    whole.
    """
    names = {*known}
    if _GLOB & {*typed}:
        pattern = squashed(typed.strip())
        return _alike(pattern, names) or _alike(pattern, model_types())
    # `MlcdVisionModel` is a type and no class; `GlmImageProcessor` is the processor of one.
    whole = _BETWEEN.sub("", typed.strip().lower())
    exact = (whole, re.sub(r"processor(fast)?$", "", whole), squashed(typed.strip()))
    for key in dict.fromkeys((*exact, *spellings(typed))):
        if key in _rows()[CONTESTED].names and key not in exact:
            break
        kind = _by_spelling().get(key, "")
        keys = {key, squashed(kind), squashed(_PART.sub("", kind))}
        if found := sorted(name for name in names if squashed(name) in keys):
            return tuple(found)
        if kind:
            return (kind,)
    return ()


def exists(models: Iterable[str], release: str) -> bool:
    """Say whether a release has one of the models, as far as that is known."""
    line = Version(release).release[:2]
    kinds = [
        model_types()[name] for model in models for name in meant(model, ()) if name in _rows()
    ]
    return not kinds or any(
        Version(kind.since).release[:2] <= line
        and (not kind.until or line <= Version(kind.until).release[:2])
        for kind in kinds
    )


def _alike(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in sorted(names) if fnmatch.fnmatchcase(squashed(name), pattern))


def spellings(typed: str) -> tuple[str, ...]:
    """Return a name squashed, as that of a checkpoint, without its edition, and as a part."""
    tail = typed.strip().rstrip("/").rpartition("/")[2]
    whole = squashed(_PART.sub("", typed.strip()))
    return tuple(dict.fromkeys((squashed(typed.strip()), squashed(tail), series(tail), whole)))


def series(checkpoint: str) -> str:
    """Return what the checkpoints of one model share: `Qwen2.5-VL-7B-Instruct` is `qwen25vl`."""
    parts = re.split(r"[-_\s]", checkpoint)
    kept = ("moe" if _ACTIVE.fullmatch(part) else part for part in parts)
    return squashed("".join(part for part in kept if not _EDITION.fullmatch(part)))


def squashed(name: str) -> str:
    """Return a name without its separators and what a class adds: `BLIP-2` is `blip2`."""
    return _BETWEEN.sub("", _CLASS.sub("", name).lower())


def nearest(typed: str, known: Iterable[str]) -> list[str]:
    """Return the names that are most like one that means no model."""
    by_spelling = {squashed(name): name for name in sorted({*known} | model_types().keys())}
    parts = {squashed(part) for part in re.split(r"[-_\s/]", typed)}
    keys = spellings(typed)
    inside = [
        name for name in by_spelling if name in parts or any(key.startswith(name) for key in keys)
    ]
    alike = [
        each for key in keys for each in difflib.get_close_matches(key, by_spelling, _NEAR, 0.6)
    ]
    found = [*sorted(inside, key=len, reverse=True)[:2], *alike]
    return [by_spelling[name] for name in dict.fromkeys(found)][:_NEAR]
