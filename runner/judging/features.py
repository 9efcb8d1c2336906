"""What has to be used, beside a model in some precision, for a case to hit: its features. Pure.

They are read from what the block of a case says of itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from repromatrix.runner.model.case import Case, Failure, Trigger


class Feature(NamedTuple):
    """How the block of a case shows that it needs a feature."""

    words: str = ""
    """A pattern of its title, or of what `concerns` says before it names exceptions."""
    package: str = ""
    """The package that provides the feature: a case that depends on it needs the feature."""
    trigger: Trigger | None = None
    """The trigger of the feature: alone it is enough, beside others the words count."""
    implies: str = ""
    """Another feature, which everybody uses who uses this one."""


FEATURES: Mapping[str, Feature] = {
    "adapter": Feature(package="peft", trigger=Trigger.ADAPTER),
    "oft": Feature("b?oft", implies="adapter"),
    **{
        method: Feature(method.replace("-", " "), implies="adapter")
        for method in ("adalora", "dora", "fourierft", "ln-tuning", "loha", "osf", "vblora", "vera")
    },
    "autocast": Feature("under autocast|mixed precision", trigger=Trigger.AUTOCAST),
    "bitsandbytes": Feature(package="bitsandbytes", implies="quantization"),
    "compile": Feature(r"torch\.compile", trigger=Trigger.COMPILE),
    "custom-model": Feature("(class|module) of your own"),
    "diffusers": Feature(package="diffusers", implies="pipeline"),
    "export": Feature("exported"),
    "flash-attention": Feature("flash[ -]attn|flash attention"),
    "float8": Feature("(float|fp)8"),
    "from-config": Feature("from_config"),
    "fsdp2": Feature("fsdp2", implies="fsdp"),
    "offload": Feature("offload(ed|ing)"),
    "quantization": Feature("quanti[sz]ed|mxfp4|packed weights"),
    "quanto": Feature(package="optimum-quanto", implies="quantization"),
    "static-cache": Feature("static (cross-attention )?cache", trigger=Trigger.STATIC_CACHE),
    "tensor-parallel": Feature("(tensor|expert) parallel(ism)?"),
    "torchao": Feature(package="torchao", implies="quantization"),
    "trainer": Feature("trainer", trigger=Trigger.TRAINER),
    "trl": Feature(package="trl", implies="trainer"),
    **{name: Feature(name) for name in ("ddp", "deepspeed", "fsdp", "pipeline")},
    **{
        name: Feature(name.replace("-", " "))
        for name in ("gradient-checkpointing", "group-beam-search", "meta-device")
    },
    **{
        name: Feature(package=name)
        for name in ("llamafactory", "ms-swift", "sentence-transformers")
    },
}
"""By name. Who does not use one cannot meet what needs it."""


def needed(case: Case, entry: Failure | None = None) -> frozenset[str]:
    """Return all features that are needed for an entry of a case to hit; without one, the case."""
    title = (entry.title if entry else None) or case.block.title
    concerns = re.split(r"[;:]|\. ", case.block.concerns or "")[0]
    triggers = {*((entry.trigger if entry else ()) or case.block.trigger)}
    return frozenset(
        name
        for name, feature in FEATURES.items()
        if feature.package in case.packages
        or (feature.trigger and triggers == {feature.trigger})
        or (
            feature.words
            and (feature.trigger is None or feature.trigger in triggers)
            and re.search(rf"\b({feature.words})\b", f"{title}\n{concerns}", re.IGNORECASE)
        )
    )


def unused(needs: Iterable[str], used: Collection[str]) -> tuple[str, ...]:
    """Return which needed features are not used, the names sorted.

    What is used brings what it implies; of what is not, only the special is named.
    """
    brought = {*used, *(FEATURES[name].implies for name in used)}
    left = {*needs} - brought
    return tuple(sorted(left - {FEATURES[name].implies for name in left}))
