"""The options of `matrix`, and which of them cannot be meant together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.cluster import connecting as ray
from runner.commands.planned import Manner
from runner.engine.hardware import demand
from runner.errors import Fault, refuse

if TYPE_CHECKING:
    from pathlib import Path

    from runner.planning.selection import Wish


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The options of `matrix` as they were typed."""

    wish: Wish
    only: str
    jobs: int
    python: Path | None
    rerun: bool
    plan: str
    budget: str
    dry_run: bool
    strict: bool
    trust_published: bool
    shard: str = ""
    ray: str = ""
    sandbox: bool | None = None


def check(options: Options) -> None:
    """Refuse what cannot be meant, or cannot be run here; raises RunnerError."""
    if options.only not in {"", "unexpected"}:
        raise refuse(Fault(where="--only", found=repr(options.only), allowed="unexpected"))
    for one, other, allowed in _beside(options):
        raise refuse(Fault(where=one, found=f"{other} beside it", allowed=allowed))
    if options.ray:
        ray.check(options.ray)
    else:
        demand(options.wish.device)


def _beside(options: Options) -> list[tuple[str, str, str]]:
    """Return pairs of options that exclude each other, each with what is allowed instead."""
    alike = "cells that every machine works out alike"
    pairs = (
        ("--shard", options.shard, "--only", options.only, alike),
        ("--shard", options.shard, "--python", options.python, alike),
        ("--shard", options.shard, "--plan boundaries", options.plan == Manner.BOUNDARIES, alike),
        (
            "--budget",
            options.budget,
            "--ray",
            options.ray,
            "a budget on this machine, or a cluster without one",
        ),
        (
            "--python",
            options.python,
            "--release",
            options.wish.release,
            "either an interpreter or releases",
        ),
        (
            "--python",
            options.python,
            "--ray",
            options.ray,
            "either an interpreter of this machine or a cluster",
        ),
        (
            "--sandbox",
            options.sandbox,
            "--ray",
            options.ray,
            "a sandbox on this machine, or a cluster without one",
        ),
    )
    return [(one, two, instead) for one, first, two, second, instead in pairs if first and second]
