"""One case in five environments, with outcomes that a test may change: what pages are made from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from repromatrix.reports.view import Survey, survey
from repromatrix.runner.compare.diff import CellChange
from repromatrix.runner.compare.snapshots import Changed
from repromatrix.runner.environments.building import Built
from repromatrix.runner.evidence.commits import PinnedCommit
from repromatrix.runner.evidence.published import Publication
from repromatrix.runner.execution.events import Ready, Tree
from repromatrix.runner.judging.verdicts import Judged, judge_all
from repromatrix.runner.model.case import Case, read_case
from repromatrix.runner.model.cell import Cell, Environment, Source
from repromatrix.runner.model.observation import LOCAL, Failed, Observation, Provenance
from repromatrix.runner.model.outcomes import Device, Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Fake = Callable[[Cell], Observation | None]

BLOCK = """
requires-python = ">=3.10"
dependencies = ["torch", "transformers>=4.50"]

[tool.repromatrix]
title = "The cache has no float"
reports = ["https://github.com/owner/name/issues/7"]
area = "kv-cache"
models = ["gemma3"]
trigger = ["trainer"]
symptom = ["error"]

[tool.repromatrix.workarounds]
away = { says = "Do not evaluate.", skips = true }
cache-off = "Switch the cache off."

[tool.repromatrix.snippets]
cache-off = "model.config.use_cache = False"

[[tool.repromatrix.fails]]
when = ["transformers>=4.50,<4.51"]
precisions = ["bf16"]
raises = "AttributeError"
match = "no attribute 'float'"
fixed-by = "https://github.com/owner/name/pull/8"

[[tool.repromatrix.claims]]
report = "https://github.com/owner/name/issues/7"
says = "It fails in bf16."
when = ["transformers==4.50.0"]
precisions = ["bf16"]
outcome = "fails"

[[tool.repromatrix.claims]]
report = "https://github.com/owner/name/issues/7"
says = "It fails in fp16 too."
precisions = ["fp16"]
outcome = "fails"

[[tool.repromatrix.claims]]
report = "https://github.com/owner/name/issues/7"
says = "It is rare."
"""
DOCSTRING = "A cache must not be asked for .float(). It was.\n\nOnly 4.50 did so."


def a_case(block: str = BLOCK, name: str = "cache_float", docstring: str = DOCSTRING) -> Case:
    lines = "\n".join(f"# {line}".rstrip() for line in block.strip().splitlines())
    return read_case(f"# /// script\n{lines}\n# ///\n{docstring!r}\n", f"cases/{name}.py")


def an_environment(name: str, source: Source = Source.RELEASE) -> Environment:
    version = "4.52.0.dev0" if source is Source.MAIN else name
    pins = {"transformers": version, "accelerate": "1.5.2", "torch": "2.13.0"}
    return Environment(name=name, source=source, python="3.11.7", pins=pins, markers={})


def ready_in(folder: Path, tree: Tree | None = None) -> Ready:
    built = Built(name="4.50.0", folder=folder, python=folder / "bin" / "python", versions={})
    return Ready(environment=an_environment("4.50.0"), built=built, cells=(), tree=tree)


CASE = a_case()
ENVIRONMENTS = (
    an_environment("4.49.0"),
    an_environment("4.50.0"),
    an_environment("4.50.1"),
    an_environment("4.51.0"),
    an_environment("main", Source.MAIN),
)
NO_FLOAT = Failed(
    error_class="AttributeError",
    message="'HybridCache' object has no attribute 'float'",
    signature="AttributeError: no float",
    traceback="Traceback: deep",
)
HEADLINE = "AttributeError: 'HybridCache' object has no attribute 'float'"
BROKE_AGAIN = Changed(
    change=CellChange.BROKE,
    case="cache_float",
    workaround="",
    precision="bf16",
    device="cpu",
    environments=("4.50.0", "4.50.1", "lost"),
    before="passes",
    after=HEADLINE,
)
"""What a publication changed, also in an environment that is no more."""
PUBLICATION = Publication(
    name="2026-11-21",
    date="2026-11-21",
    hardware="a CPU",
    torch_build="2.13.0+cpu",
    python="3.11.7",
    main="unbuildable",
)


def paired(names: Iterable[str]) -> Iterator[Environment]:
    """Yield pairs of 4.51.0 with the version of accelerate that ends their names."""
    for name in names:
        yield Environment(
            name=name,
            source=Source.PAIR,
            python="3.11.7",
            pins={"transformers": "4.51.0", "accelerate": name[-5:]},
            markers={},
        )


def observed(cell: Cell, outcome: Outcome, **kinds: object) -> Observation:
    environment = {item.name: item for item in ENVIRONMENTS}[cell.environment]
    provenance = Provenance(
        case_digest=CASE.digest,
        environment_digest=environment.digest,
        packages=environment.pins,
        python=environment.python,
        torch_build="2.13.0+cpu",
        hardware="a CPU",
        protocol=1,
        run="r",
    )
    seen = Observation(cell=cell, outcome=outcome, provenance=provenance, source=LOCAL)
    return replace(seen, **kinds)  # type: ignore[arg-type]


def fake_run(cell: Cell) -> Observation | None:
    """Behave as the case describes: bf16 fails on 4.50, each workaround heals it."""
    if cell.environment == "4.49.0":
        reason = "needs transformers>=4.50, has 4.49.0"
        return observed(cell, Outcome.NOT_APPLICABLE, reason=reason)
    if cell.environment == "main":
        return observed(cell, Outcome.UNBUILDABLE, reason="no route to host")
    computed = {cell.precision.dtype: 1200}
    if cell.environment < "4.51" and cell.precision is Precision.BF16 and not cell.workaround:
        return observed(cell, Outcome.FAILS, failed=NO_FLOAT, computed=computed)
    return observed(cell, Outcome.PASSES, computed=computed, measured={"error": 0.5})


def cells_of(cases: Iterable[Case], devices: Iterable[Device]) -> Iterator[Cell]:
    for device in devices:
        for case in cases:
            for environment in ENVIRONMENTS:
                for workaround in case.branches:
                    for precision in Precision:
                        yield Cell(case.name, workaround, environment.name, precision, device)


def judged(
    run: Fake = fake_run, case: Case = CASE, devices: tuple[Device, ...] = (Device.CPU,)
) -> tuple[Judged, ...]:
    seen = [row for cell in cells_of([case], devices) if (row := run(cell)) is not None]
    return judge_all(seen, {case.name: case}, {item.name: item for item in ENVIRONMENTS})


def surveyed(run: Fake = fake_run, commits: Iterable[PinnedCommit] = (), **kinds: object) -> Survey:
    by_change = {row.key: row for row in commits}
    rows = judged(run, **kinds)  # type: ignore[arg-type]
    return survey({CASE.name: CASE}, ENVIRONMENTS, rows, commits=by_change)


def pinned(change: str, before: str, after: str, letter: str = "b") -> PinnedCommit:
    """Return the commit of a change of the case in bf16."""
    return PinnedCommit(
        *(CASE.name, "", "bf16", "cpu", change, before, after),
        package="transformers",
        commit=letter * 40,
        date="2025-03-28",
        pull_request="8",
    )


def changed(where: Cell, change: Callable[[Observation], Observation | None]) -> Fake:
    """Return a run in which one cell is different."""

    def run(cell: Cell) -> Observation | None:
        seen = fake_run(cell)
        return change(seen) if cell == where and seen is not None else seen

    return run
