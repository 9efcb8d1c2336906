"""The list of probes as data: what the runner plans by, without importing torch."""

from __future__ import annotations

from typing import NamedTuple

BUILD = "build"
"""What stands for a probe that says whether an architecture is built at all."""
RAW = ("raw-bf16", "default-dtype")
"""Probes that give weights in 16 bit inputs in fp32."""
WEIGHTS = "weights"
"""Where a summary states by which names its weights were filled."""


class ProbeName(NamedTuple):
    """One probe; its function has its name, with underscores, in the module of its family."""

    name: str
    family: str
    """Probes of a family share a process."""
    dtype: str
    """In what it computes: `fp32`, `bf16` or `fp16`."""
    holds: str
    """What must hold, in a sentence."""
    cheap: bool = False
    """Whether it is run on every class of an architecture, not on one."""


_CHEAP = {"initialised", "outputs-fp32", "outputs-bf16", "loaded-bf16", "autocast-bf16"}
_FAMILIES = {
    "build": (
        ("initialised", "fp32", "A new model has no memory that nothing initialised."),
        (
            "missing-initialised",
            "fp32",
            "A weight that a checkpoint lacks is initialised when it is loaded.",
        ),
        ("reload-fp32", "fp32", "A saved model computes the same once loaded."),
        ("reload-bf16", "bf16", "A model saved in bf16 is loaded with its values."),
        ("reload-fp16", "fp16", "A model saved in fp16 is loaded with its values."),
        ("keep-fp32", "fp16", "Parts that a model keeps in fp32 are loaded so."),
        (
            "checkpoint",
            "fp32",
            "A checkpoint of the release on which the recipe was made is loaded whole.",
        ),
        ("tied", "fp32", "Tied embeddings are one tensor after loading."),
        ("resized", "fp32", "More tokens change nothing for those that were there."),
    ),
    "forward": (
        ("outputs-fp32", "fp32", "A forward pass gives numbers."),
        ("outputs-bf16", "bf16", "Cast to bf16, it gives the numbers of fp32."),
        ("loaded-bf16", "bf16", "Loaded in bf16, it computes."),
        ("raw-bf16", "bf16", "Weights in bf16 take inputs in fp32."),
        ("autocast-bf16", "bf16", "It computes under autocast."),
        ("cast-back", "bf16", "After bf16 and back to fp32 it still computes."),
        ("twice", "fp32", "A second forward pass gives what the first gave."),
        ("cast-fp16", "fp16", "Cast to fp16, it gives finite numbers."),
        ("loaded-fp16", "fp16", "Loaded in fp16, it computes."),
        ("autocast-fp16", "fp16", "It computes under autocast to fp16."),
        ("overflow-fp16", "fp16", "Wide activations stay finite where bf16's do."),
    ),
    "attention": (
        ("eager-sdpa", "fp32", "Eager attention and SDPA agree."),
        ("padding-right", "fp32", "Padding on the right changes nothing."),
        ("padding-left", "fp32", "Padding on the left changes nothing."),
        ("batch", "fp32", "A sample computes alone what it does in a batch."),
    ),
    "generate": (
        ("cached", "fp32", "A cache changes no generated token."),
        ("static", "fp32", "A static cache changes no generated token."),
        ("sliding", "fp32", "A sliding cache changes no generated token."),
        ("quantised", "fp32", "It generates with a quantised cache."),
        ("generate-bf16", "bf16", "It generates in bf16."),
        ("generate-autocast", "bf16", "It generates under autocast."),
        ("static-bf16", "bf16", "It generates in bf16 with a static cache."),
        ("static-autocast", "bf16", "It generates under autocast with a static cache."),
    ),
    "train": (
        ("checkpointing", "fp32", "Gradient checkpointing changes neither loss nor gradients."),
        ("checkpointing-bf16", "bf16", "Gradient checkpointing works in bf16."),
        ("backward-bf16", "bf16", "Gradients in bf16 exist and are finite."),
        ("backward-autocast", "bf16", "Gradients under autocast exist and are finite."),
    ),
    "trainer": (
        ("trainer", "fp32", "The Trainer trains, evaluates, saves and resumes."),
        ("trainer-bf16", "bf16", "The Trainer trains and evaluates with bf16=True."),
        ("trainer-leaks", "bf16", "A Trainer with bf16=True leaves no setting behind."),
    ),
    "half": (
        ("initialised-bf16", "bf16", "A new model that is made in bf16 has finite weights."),
        ("padded-bf16", "bf16", "A padded batch gives in bf16 what it gives in fp32."),
        ("padded-autocast", "bf16", "Under autocast it gives what it gives in fp32, too."),
        ("evaluated-half", "bf16", "The Trainer evaluates a model whose weights are in bf16."),
    ),
    "lora": (
        ("lora", "fp32", "LoRA on all linear layers has an effect."),
        ("lora-everywhere", "fp32", "Every layer that is trained takes part in its adapter."),
        ("lora-merged", "fp32", "Merging an adapter changes no output."),
        ("lora-reloaded", "fp32", "A saved adapter computes the same once loaded."),
    ),
    "variations": (
        ("default-dtype", "bf16", "Loaded from bf16 without a dtype, it takes inputs in fp32."),
        ("norms-fp32", "bf16", "Under autocast, norms in fp32 go with weights in bf16."),
        ("mask-4d", "bf16", "Eager attention in bf16 takes a mask of scores in fp32."),
        ("trainable-tokens", "fp32", "An adapter of tokens changes nothing at first."),
        (
            "settings-reloaded",
            "fp32",
            "With settings that are not the default, it computes the same once loaded.",
        ),
        (
            "settings-eager-sdpa",
            "fp32",
            "Eager attention and SDPA agree, too, with settings that are not the default.",
        ),
        ("prepared", "bf16", "Prepared by accelerate in bf16, it gives outputs in fp32."),
    ),
    "long": (
        ("long-padded", "fp32", "Padding on the left changes nothing in a long text."),
        ("long-cached", "fp32", "A cache changes no token after a long text."),
        ("long-static", "fp32", "A static cache changes no token after a long text."),
        (
            "long-eager-sdpa",
            "fp32",
            "Eager attention and SDPA agree in a long text, one row of it padded.",
        ),
    ),
    "range": (
        ("padded-fp16", "fp16", "A padded batch gives in fp16 what it gives in fp32."),
        ("backward-padded-fp16", "fp16", "Gradients of a padded batch are finite in fp16."),
        ("wide-fp16", "fp16", "Wide activations that fit into fp16 are computed in it."),
    ),
}
"""By family, the probes: the name, in what it computes, and what must hold."""
PROBES = tuple(
    ProbeName(name, family, dtype, holds, name in _CHEAP)
    for family, probes in _FAMILIES.items()
    for name, dtype, holds in probes
)
"""All of them, by family."""
DTYPES = {BUILD: "fp32"} | {probe.name: probe.dtype for probe in PROBES}
"""In what each computes, first whether an architecture is built."""
