"""Whether a tree can be imported at all in an environment, asked before its cells are run."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from runner.engine.answers import placeless
from runner.engine.zygote import Start, Zygote, ZygoteError
from runner.model.outcomes import Device

if TYPE_CHECKING:
    from runner.engine.events import Tree
    from runner.environments.building import Built

# Packages import lazily: a name that needs most of what lies behind it.
_TELLING = {"transformers": "PreTrainedModel", "accelerate": "Accelerator", "peft": "PeftModel"}


def unimportable(built: Built, tree: Tree, *, sandbox: bool = False) -> str:
    """Return why the package of a tree cannot be imported; nothing where it can."""
    names = {tree.package: [_TELLING[tree.package]]} if tree.package in _TELLING else {}
    start = Start(
        built=built,
        device=Device.CPU,
        preload={"modules": [tree.package], "names": names},
        fork=True,
        slots=1,
        threads=1,
        front=tree.front,
        sandbox=sandbox,
    )
    try:
        with contextlib.closing(Zygote(start)) as zygote:
            reason = next(iter(zygote.reasons), "")
    except ZygoteError as error:
        reason = str(error)
    return placeless(reason.replace(f"{tree.path}/", ""), built.folder)
