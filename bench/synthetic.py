"""Evidence of 500 cases on 80 releases in 3 precisions, made up from a fixed seed, and its site."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repromatrix.reports.build import render
from repromatrix.runner.judging.verdicts import judge_all
from repromatrix.runner.model.case import read_case
from repromatrix.runner.model.cell import PROTOCOL, Cell, Environment, Source
from repromatrix.runner.model.observation import (
    LOCAL,
    Failed,
    Observation,
    Provenance,
    signature,
)
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from repromatrix.runner.model.case import Case

CASES, RELEASES = 500, 80
WORDS = ("cache", "mask", "norm", "rotary", "router", "merge", "loss", "scores", "pooler", "gate")
CLASSES = ("RuntimeError", "ValueError", "AttributeError", "AssertionError", "TypeError")


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Cases, environments, and what was seen in every cell."""

    cases: dict[str, Case]
    environments: dict[str, Environment]
    rows: tuple[Observation, ...]


def corpus(cases: int = CASES, releases: int = RELEASES, seed: int = 0) -> Corpus:
    """Return made-up evidence with breaks, repairs, numbers and hundreds of messages."""
    dice = random.Random(seed)  # noqa: S311 - nothing here is a secret
    environments = {name: _environment(name) for name in _names(releases)}
    made = {name: _case(name, dice) for name in map(_name, range(cases))}
    rows = tuple(
        row for case in made.values() for row in _rows(case, tuple(environments.values()), dice)
    )
    return Corpus(cases=made, environments=environments, rows=rows)


def _names(releases: int) -> Iterator[str]:
    for at in range(releases):
        minor, patch = divmod(at, 3)
        yield f"4.{49 + minor}.{patch}" if minor < 9 else f"5.{minor - 9}.{patch}"


def _name(at: int) -> str:
    return f"model{at % 97}_{WORDS[at % 10]}_{WORDS[at // 10 % 10]}_{at}"


def _environment(name: str) -> Environment:
    pins = {"transformers": name, "torch": "2.13.0", "accelerate": "1.5.2", "peft": "0.15.1"}
    return Environment(name=name, source=Source.RELEASE, python="3.11.7", pins=pins, markers={})


def _case(name: str, dice: random.Random) -> Case:
    kind = dice.choice(CLASSES)
    lines = [
        'requires-python = ">=3.10"',
        'dependencies = ["torch", "transformers>=4.49"]',
        "[tool.repromatrix]",
        f'title = "The {name.replace("_", " ")} is computed in another dtype than its weights"',
        f'reports = ["https://github.com/huggingface/transformers/issues/{len(name) * 997}"]',
        f'area = "{dice.choice(WORDS)}s"',
        f'models = ["{name.split("_", maxsplit=1)[0]}"]',
        "[[tool.repromatrix.fails]]",
        'when = ["transformers>=4.52,<5.3"]',
        'precisions = ["bf16", "fp16"]',
        f'raises = "{kind}"',
        f'match = "{name} expected"',
    ]
    block = "".join(f"# {line}\n" for line in lines)
    return read_case(f'# /// script\n{block}# ///\n"""It holds."""\n', f"cases/{name}.py")


def _rows(
    case: Case, environments: tuple[Environment, ...], dice: random.Random
) -> Iterator[Observation]:
    breaks = dice.randrange(40)
    heals = breaks + dice.randrange(40)
    numeric = dice.random() < 0.5
    for at, environment in enumerate(environments):
        for precision in Precision:
            bad = breaks <= at < heals and precision is not Precision.FP32
            yield Observation(
                cell=Cell(case.name, "", environment.name, precision, Device.CPU),
                outcome=Outcome.FAILS if bad else Outcome.PASSES,
                provenance=_provenance(case, environment),
                source=LOCAL,
                failed=_failed(case, at // 7) if bad else None,
                exercised=Exercised.EMPTY if precision is Precision.FP32 else Exercised.YES,
                computed={precision.dtype: 600 + at // 9},
                measured={"largest_error": dice.random()} if numeric else {},
                seconds=0.2,
            )


def _provenance(case: Case, environment: Environment) -> Provenance:
    return Provenance(
        case_digest=case.digest,
        environment_digest=environment.digest,
        packages=environment.pins,
        python="3.11.7",
        torch_build="2.13.0+cpu",
        hardware="a CPU",
        protocol=PROTOCOL,
        run="r",
    )


def _failed(case: Case, era: int) -> Failed:
    kind = next(iter(case.block.fails[0].raises), "ValueError")
    message = (
        f"{case.name} expected scalar type Float but found BFloat16 in pass {'abcdefghijkl'[era]}"
    )
    folder = "site-packages/transformers/models/x"
    trace = "".join(
        f'  File "{folder}/modeling_{deep}.py", line {deep}, in forward\n'
        f"    return self.inner_{deep}(hidden_states, attention_mask, **kwargs)\n"
        for deep in range(20)
    )
    return Failed(
        error_class=kind, message=message, signature=signature(kind, message), traceback=trace
    )


def draw(made: Corpus, folder: Path) -> float:
    """Render a corpus; return the seconds that it took, judging included."""
    started = time.perf_counter()
    judged = judge_all(made.rows, made.cases, made.environments)
    render(made.cases, tuple(made.environments.values()), judged, folder)
    return time.perf_counter() - started
