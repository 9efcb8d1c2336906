"""Small histories of the sweep, for tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from repromatrix.runner.evidence.swept.history import SweepHistory, SweptRelease
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord, ProbeStatus
from repromatrix.sweep.publishing import history

LINE = ("4.49.0", "4.50.0", "4.51.0", "5.0.0")
RECIPES = [("gptj", "GPTJForCausalLM", "4.49.0"), ("llama", "LlamaForCausalLM", "4.49.0")]


def record(kind: str, probe: str, status: ProbeStatus, message: str = "") -> ProbeRecord:
    key = ProbeKey(kind, probe)
    if status is ProbeStatus.FAILS:
        return ProbeRecord(
            key=key, status=status, error="ValueError", message=message, place="transformers.m:f"
        )
    return ProbeRecord(key=key, status=status, why=message)


def numbers(kind: str, norm: float, weights: str = "0a") -> ProbeRecord:
    tensor = {"shape": [2, 3], "finite": 1 / 3, "norm": norm, "samples": [0.5, None, norm / 3]}
    return dataclasses.replace(
        record(kind, "outputs-fp32", ProbeStatus.HOLDS),
        summary={"weights": weights, "logits": tensor, "": {**tensor, "shape": []}},
    )


def line(
    *of_releases: list[ProbeRecord],
    lacking: tuple[str, ...] = (),
    recipes: Sequence[tuple[str, str, str]] = RECIPES,
) -> SweepHistory:
    names = LINE[: len(of_releases)]
    swept = [SweptRelease(name, "e1", "x86_64", 300, lacking, ()) for name in names]
    found = {
        name: {one.key: one for one in some} for name, some in zip(names, of_releases, strict=True)
    }
    return history(swept, found, recipes)
