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


PROBES = (
    ProbeName(
        "initialised",
        "build",
        "fp32",
        "A new model has no memory that nothing initialised.",
        cheap=True,
    ),
    ProbeName(
        "missing-initialised",
        "build",
        "fp32",
        "A weight that a checkpoint lacks is initialised when it is loaded.",
    ),
    ProbeName("reload-fp32", "build", "fp32", "A saved model computes the same once loaded."),
    ProbeName("reload-bf16", "build", "bf16", "A model saved in bf16 is loaded with its values."),
    ProbeName("reload-fp16", "build", "fp16", "A model saved in fp16 is loaded with its values."),
    ProbeName("keep-fp32", "build", "fp16", "Parts that a model keeps in fp32 are loaded so."),
    ProbeName(
        "checkpoint",
        "build",
        "fp32",
        "A checkpoint of the release on which the recipe was made is loaded whole.",
    ),
    ProbeName("tied", "build", "fp32", "Tied embeddings are one tensor after loading."),
    ProbeName("resized", "build", "fp32", "More tokens change nothing for those that were there."),
    ProbeName("outputs-fp32", "forward", "fp32", "A forward pass gives numbers.", cheap=True),
    ProbeName(
        "outputs-bf16", "forward", "bf16", "Cast to bf16, it gives the numbers of fp32.", cheap=True
    ),
    ProbeName("loaded-bf16", "forward", "bf16", "Loaded in bf16, it computes.", cheap=True),
    ProbeName("raw-bf16", "forward", "bf16", "Weights in bf16 take inputs in fp32."),
    ProbeName("autocast-bf16", "forward", "bf16", "It computes under autocast.", cheap=True),
    ProbeName("cast-back", "forward", "bf16", "After bf16 and back to fp32 it still computes."),
    ProbeName("twice", "forward", "fp32", "A second forward pass gives what the first gave."),
    ProbeName("cast-fp16", "forward", "fp16", "Cast to fp16, it gives finite numbers."),
    ProbeName("loaded-fp16", "forward", "fp16", "Loaded in fp16, it computes."),
    ProbeName("autocast-fp16", "forward", "fp16", "It computes under autocast to fp16."),
    ProbeName("overflow-fp16", "forward", "fp16", "Wide activations stay finite where bf16's do."),
    ProbeName("eager-sdpa", "attention", "fp32", "Eager attention and SDPA agree."),
    ProbeName("padding-right", "attention", "fp32", "Padding on the right changes nothing."),
    ProbeName("padding-left", "attention", "fp32", "Padding on the left changes nothing."),
    ProbeName("batch", "attention", "fp32", "A sample computes alone what it does in a batch."),
    ProbeName("cached", "generate", "fp32", "A cache changes no generated token."),
    ProbeName("static", "generate", "fp32", "A static cache changes no generated token."),
    ProbeName("sliding", "generate", "fp32", "A sliding cache changes no generated token."),
    ProbeName("quantised", "generate", "fp32", "It generates with a quantised cache."),
    ProbeName("generate-bf16", "generate", "bf16", "It generates in bf16."),
    ProbeName("generate-autocast", "generate", "bf16", "It generates under autocast."),
    ProbeName("static-bf16", "generate", "bf16", "It generates in bf16 with a static cache."),
    ProbeName(
        "static-autocast", "generate", "bf16", "It generates under autocast with a static cache."
    ),
    ProbeName(
        "checkpointing",
        "train",
        "fp32",
        "Gradient checkpointing changes neither loss nor gradients.",
    ),
    ProbeName("checkpointing-bf16", "train", "bf16", "Gradient checkpointing works in bf16."),
    ProbeName("backward-bf16", "train", "bf16", "Gradients in bf16 exist and are finite."),
    ProbeName(
        "backward-autocast", "train", "bf16", "Gradients under autocast exist and are finite."
    ),
    ProbeName("trainer", "trainer", "fp32", "The Trainer trains, evaluates, saves and resumes."),
    ProbeName(
        "trainer-bf16", "trainer", "bf16", "The Trainer trains and evaluates with bf16=True."
    ),
    ProbeName(
        "trainer-leaks", "trainer", "bf16", "A Trainer with bf16=True leaves no setting behind."
    ),
    ProbeName(
        "initialised-bf16", "half", "bf16", "A new model that is made in bf16 has finite weights."
    ),
    ProbeName("padded-bf16", "half", "bf16", "A padded batch gives in bf16 what it gives in fp32."),
    ProbeName(
        "padded-autocast", "half", "bf16", "Under autocast it gives what it gives in fp32, too."
    ),
    ProbeName(
        "evaluated-half", "half", "bf16", "The Trainer evaluates a model whose weights are in bf16."
    ),
    ProbeName("lora", "lora", "fp32", "LoRA on all linear layers has an effect."),
    ProbeName(
        "lora-everywhere", "lora", "fp32", "Every layer that is trained takes part in its adapter."
    ),
    ProbeName("lora-merged", "lora", "fp32", "Merging an adapter changes no output."),
    ProbeName("lora-reloaded", "lora", "fp32", "A saved adapter computes the same once loaded."),
    ProbeName(
        "default-dtype",
        "variations",
        "bf16",
        "Loaded from bf16 without a dtype, it takes inputs in fp32.",
    ),
    ProbeName(
        "norms-fp32", "variations", "bf16", "Under autocast, norms in fp32 go with weights in bf16."
    ),
    ProbeName(
        "mask-4d", "variations", "bf16", "Eager attention in bf16 takes a mask of scores in fp32."
    ),
    ProbeName(
        "trainable-tokens", "variations", "fp32", "An adapter of tokens changes nothing at first."
    ),
    ProbeName(
        "settings-reloaded",
        "variations",
        "fp32",
        "With settings that are not the default, it computes the same once loaded.",
    ),
    ProbeName(
        "settings-eager-sdpa",
        "variations",
        "fp32",
        "Eager attention and SDPA agree, too, with settings that are not the default.",
    ),
    ProbeName(
        "prepared",
        "variations",
        "bf16",
        "Prepared by accelerate in bf16, it gives outputs in fp32.",
    ),
    ProbeName("long-padded", "long", "fp32", "Padding on the left changes nothing in a long text."),
    ProbeName("long-cached", "long", "fp32", "A cache changes no token after a long text."),
    ProbeName("long-static", "long", "fp32", "A static cache changes no token after a long text."),
    ProbeName(
        "long-eager-sdpa",
        "long",
        "fp32",
        "Eager attention and SDPA agree in a long text, one row of it padded.",
    ),
    ProbeName(
        "padded-fp16", "range", "fp16", "A padded batch gives in fp16 what it gives in fp32."
    ),
    ProbeName(
        "backward-padded-fp16", "range", "fp16", "Gradients of a padded batch are finite in fp16."
    ),
    ProbeName(
        "wide-fp16", "range", "fp16", "Wide activations that fit into fp16 are computed in it."
    ),
)
"""All of them, by family."""
DTYPES = {BUILD: "fp32"} | {probe.name: probe.dtype for probe in PROBES}
"""In what each computes, first whether an architecture is built."""
