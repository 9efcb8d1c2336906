"""Long texts: longer than windows, chunks and selections of tokens."""

from __future__ import annotations

import functools
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from repromatrix.sweep.child.probes import attention, generate
from repromatrix.sweep.child.probes.subject import (
    ROUNDING,
    ProbeSkipped,
    Subject,
    agree,
    outputs,
    refusing,
)
from repromatrix.sweep.child.tokens import plain_token

if TYPE_CHECKING:
    from collections.abc import Callable

_LENGTH = 40
"""Tokens of a long text: more than a window, a chunk or a selection of a tiny model holds."""
_TIMES = 5
_PADDED = 3


class _Long(Subject):
    """The same architecture with longer texts, and without the images or sounds that it takes."""

    def inputs(self, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
        """Return token ids alone, none of them special, of shape (2, 40)."""
        ids = super().inputs(dtype)["input_ids"]
        special, plain = plain_token(self.recipe["config"])
        ids = ids.masked_fill(torch.isin(ids, torch.tensor(special)), plain)
        return {"input_ids": torch.cat([ids, ids.flip(0)], 1).repeat(1, _TIMES)[:, :_LENGTH]}

    @cached_property
    def _built(self) -> Any:
        """The model with SDPA in all its parts: of a new one, some may have eager attention."""
        with Subject(self.recipe, self.seed).saved() as folder:
            try:
                return self.load(folder, torch.float32, attn_implementation="sdpa")
            except (ValueError, ImportError):
                return self.load(folder, torch.float32)


def _on_long_texts(probe: Callable[[Subject], None], subject: Subject) -> None:
    """Run a probe on long texts; raises ProbeSkipped for what takes none, or has a decoder."""
    inputs = subject.inputs()
    ids = inputs.get("input_ids")
    if "decoder_input_ids" in inputs or not isinstance(ids, torch.Tensor) or ids.ndim != 2:
        msg = "it has no text, or a decoder"
        raise ProbeSkipped(msg)
    longer = _Long(subject.recipe, subject.seed)
    try:
        probe(longer)
    finally:
        subject.value = longer.value


def long_padded(subject: Subject) -> None:
    """Pad a long text on the left, with positions where forward takes them."""
    _on_long_texts(attention.padding_left, subject)


def long_cached(subject: Subject) -> None:
    """Generate after a long text, with a cache and without."""
    _on_long_texts(generate.cached, subject)


def long_static(subject: Subject) -> None:
    """Generate after a long text, with a static cache and without any."""
    _on_long_texts(generate.static, subject)


def long_eager_sdpa(subject: Subject) -> None:
    """Compute a long text, padded in one row, by eager attention and by SDPA."""
    _on_long_texts(_eager_sdpa, subject)


def _eager_sdpa(subject: Subject) -> None:
    inputs = attention._text(subject)  # noqa: SLF001 - what a text is stands in one place
    mask = torch.ones_like(inputs["input_ids"])
    mask[0, :_PADDED] = 0
    found = []
    with subject.saved() as folder:
        for name in ("eager", "sdpa"):
            options = {"attn_implementation": name}
            model = refusing(functools.partial(subject.load, folder, torch.float32, **options))
            values = outputs(model, {**inputs, "attention_mask": mask})
            of_tokens = attention._of_tokens(values, mask.shape)  # noqa: SLF001 - as is this
            found.append({name: value[mask.bool()] for name, value in of_tokens.items()})
    agree(subject, found[1], found[0], 2 * ROUNDING)
