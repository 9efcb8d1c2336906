"""A small site with known facts and hostile titles, for tests that look at it in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from factories import case, environment, failed, provenance, seen

from repromatrix.reports.build import render
from repromatrix.reports.view import survey
from repromatrix.runner.evidence.history import HistoryAnswer, HistoryKey, HistoryPoint, MainHistory
from repromatrix.runner.judging.verdicts import judge_all
from repromatrix.runner.model.case import Symptom, Trigger
from repromatrix.runner.model.cell import Cell, Environment, Source
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.reports.view import Survey
    from repromatrix.runner.judging.verdicts import Judged
    from repromatrix.runner.model.case import Case
    from repromatrix.runner.model.observation import Observation

HOSTILE = "<img src=x onerror=window.harmed=1>'\"</script><script>window.harmed=1</script>"
CACHE = """
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

[[tool.repromatrix.claims]]
report = "https://example.org/1"
says = "It fails in fp16."
precisions = ["fp16"]
outcome = "fails"

[[tool.repromatrix.claims]]
report = "https://example.org/1"
says = "It fails in bf16."
when = ["transformers>=4.50,<4.51"]
precisions = ["bf16"]
outcome = "fails"
"""
QUIET = """
simulates = "A stand-in."
same-code = ["qwen3-vl"]
"""
NO_FLOAT = failed("AttributeError", "'HybridCache' object has no attribute 'float'")
DRIFT = failed("AssertionError", f"error 0.5 of norms [2, 4] is too large {HOSTILE}")


KINDS = {
    "cache_float": (Trigger.TRAINER, Symptom.ERROR),
    "merge_quiet": (Trigger.LOAD, Symptom.WRONG_DTYPE),
    "norm_drift": (Trigger.CAST, Symptom.WRONG_NUMBERS),
}


def _case(name: str, area: str, model: str, toml: str = "", *, uses: str = "transformers") -> Case:
    made = case(toml, name=name, dependencies=("torch", uses))
    trigger, symptom = KINDS[name]
    update = {
        "area": area,
        "models": (model,),
        "title": f"About {name} {HOSTILE}",
        "trigger": (trigger,),
        "symptom": (symptom,),
    }
    return type(made)(
        name=made.name,
        where=made.where,
        head=made.head,
        block=made.block.model_copy(update=update),
        script=made.script,
    )


CASES = {
    one.name: one
    for one in (
        _case("cache_float", "kv-cache", "gemma3", CACHE),
        _case("merge_quiet", "loading", "qwen3", QUIET, uses="peft"),
        _case("norm_drift", "norms", "llama"),
    )
}
ENVIRONMENTS = {
    **{name: environment(name) for name in ("4.49.0", "4.50.0", "4.50.1", "4.51.0")},
    **{name: environment(name) for name in ("5.0.0", "5.0.1")},
    "main": Environment(
        name="main",
        source=Source.MAIN,
        python="3.11",
        pins={"transformers": "5.1.0.dev0", "torch": "2.13.0"},
        markers={},
    ),
}


def _seen(cell: Cell) -> Observation:
    """Let bf16 fail on 4.50, fp16 drift on 5.0.1 unexpectedly, and main be out of reach."""
    of, on = CASES[cell.case], ENVIRONMENTS[cell.environment]
    ran = provenance(of, on)
    if cell.environment == "main":
        return seen(Outcome.UNBUILDABLE, cell, ran=ran, exercised=Exercised.EMPTY)
    match cell:
        case ("cache_float", "", "4.50.0" | "4.50.1", Precision.BF16, _):
            return seen(Outcome.FAILS, cell, how=NO_FLOAT, ran=ran)
        case ("norm_drift", _, "5.0.1", Precision.FP16, _):
            return seen(Outcome.FAILS, cell, how=DRIFT, ran=ran)
        case _:
            pass
    idle = cell.case == "merge_quiet" and cell.precision is Precision.FP16
    return seen(Outcome.PASSES, cell, ran=ran, exercised=Exercised.NO if idle else Exercised.YES)


def judged() -> tuple[Judged, ...]:
    """Return what was seen in every cell, with its meaning."""
    cells = [
        Cell(one.name, workaround, name, precision, Device.CPU)
        for one in CASES.values()
        for name in ENVIRONMENTS
        for workaround in one.branches
        for precision in Precision
    ]
    return judge_all(map(_seen, cells), CASES, ENVIRONMENTS)


DATES = {"4.49.0": "2025-02-17", "4.50.0": "2025-03-21", "4.51.0": "2025-04-05"}
POINTS = tuple(
    HistoryPoint(f"{day}T12:00:00Z", letter * 40, "4.51.0.dev0")
    for day, letter in (("2025-02-20", "a"), ("2025-03-01", "b"), ("2025-04-20", "c"))
)


def along_main() -> MainHistory:
    """Let the cache fail until April, and say something hostile where it cannot be judged."""
    case_of = CASES["cache_float"]
    answers = (
        HistoryAnswer(fails=None, reason=f"cannot be imported: {HOSTILE}"),
        HistoryAnswer(fails=True, reason=HOSTILE),
        HistoryAnswer(fails=False, reason="passes"),
    )
    found = {point.commit: said for point, said in zip(POINTS, answers, strict=True)}
    key = HistoryKey(case_of.name, case_of.digest, Precision.BF16, Device.CPU)
    return MainHistory(repository="somebody/transformers", points=POINTS, answers={key: found})


def surveyed() -> Survey:
    """Return everything that the site is about."""
    environments = tuple(ENVIRONMENTS.values())
    return survey(CASES, environments, judged(), dates=DATES, main=along_main())


def draw(folder: Path) -> None:
    """Render the site."""
    environments = tuple(ENVIRONMENTS.values())
    render(CASES, environments, judged(), folder, dates=DATES, main=along_main())
