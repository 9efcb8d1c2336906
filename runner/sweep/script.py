"""A finding as a script in the contract of `cases/`: run on both sides, and as small as they allow.

Fields of the config that are not needed are taken out while the script still fails on the one
release and passes on the other (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing
input", 2002: first every field alone, then all that can go together, else one after another).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from repromatrix.runner.errors import ExitCode, Problem, RunnerError, refuse
from repromatrix.runner.execution.run import measure
from repromatrix.runner.model.case import Case, read_script
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.sweep.child.probes.names import PROBES, ProbeName
from repromatrix.runner.sweep.findings import Kind, ProbeChange
from repromatrix.runner.sweep.measure import SweepRunner
from repromatrix.runner.sweep.recipes import ModelRecipe

Path = tuple[str, ...]
_STATIC = ', cache_implementation="static"'
_GENERATE = "model.generate(**inputs, max_new_tokens=6, min_new_tokens=6, do_sample=False{more})"
_AUTOCAST = 'with torch.autocast("cpu", dtype, enabled=precision != "fp32"):'
_LOSS = "model(**inputs)[0].float().square().mean().backward()"


class ScriptWay(NamedTuple):
    """What a script does with its model, and how a case calls that."""

    lines: tuple[str, ...]
    trigger: tuple[str, ...]
    raw: bool = False
    """Whether inputs stay in fp32 beside a model in 16 bit."""


def _generating(more: str = "", *, autocast: bool = False) -> tuple[str, ...]:
    call = _GENERATE.format(more=more)
    return (_AUTOCAST, f"    {call}") if autocast else ("model.to(dtype)", call)


WAYS = {
    "outputs-fp32": ScriptWay(("model.to(dtype)(**inputs)",), ("forward",)),
    "outputs-bf16": ScriptWay(("model.to(dtype)(**inputs)",), ("cast", "forward")),
    "cast-fp16": ScriptWay(("model.to(dtype)(**inputs)",), ("cast", "forward")),
    "raw-bf16": ScriptWay(("model.to(dtype)(**inputs)",), ("cast", "forward"), raw=True),
    "loaded-bf16": ScriptWay(
        (
            'model.save_pretrained("saved")',
            'model = type(model).from_pretrained("saved", torch_dtype=dtype).eval()',
            "model(**inputs)",
        ),
        ("load", "forward"),
    ),
    "autocast-bf16": ScriptWay(
        (_AUTOCAST, "    model(**inputs)"), ("autocast", "forward"), raw=True
    ),
    "autocast-fp16": ScriptWay(
        (_AUTOCAST, "    model(**inputs)"), ("autocast", "forward"), raw=True
    ),
    "cached": ScriptWay(_generating(), ("generate",)),
    "static": ScriptWay(_generating(_STATIC), ("generate", "static-cache")),
    "generate-bf16": ScriptWay(_generating(), ("cast", "generate")),
    "generate-autocast": ScriptWay(_generating(autocast=True), ("autocast", "generate"), raw=True),
    "static-bf16": ScriptWay(_generating(_STATIC), ("cast", "generate", "static-cache")),
    "static-autocast": ScriptWay(
        _generating(_STATIC, autocast=True), ("autocast", "generate", "static-cache"), raw=True
    ),
    "backward-bf16": ScriptWay(("model.to(dtype).train()", _LOSS), ("cast", "backward")),
    "backward-autocast": ScriptWay(
        ("model.train()", _AUTOCAST, f"    {_LOSS}"), ("autocast", "backward"), raw=True
    ),
    "checkpointing": ScriptWay(
        ("model.gradient_checkpointing_enable()", "model.to(dtype).train()", _LOSS), ("backward",)
    ),
    "checkpointing-bf16": ScriptWay(
        ("model.gradient_checkpointing_enable()", "model.to(dtype).train()", _LOSS),
        ("cast", "backward"),
    ),
}
"""The probes that can be written out: those that end in an exception of the library."""


class Sides(NamedTuple):
    """On which release a script is to fail, and on which to pass."""

    bad: str
    good: str


def script_of(
    change: ProbeChange, recipe: ModelRecipe, runner: SweepRunner, sides: tuple[str, str]
) -> str:
    """Return the script of a change; raises RunnerError where none shows it on both sides."""
    probe = next(one for one in PROBES if one.name == change.after.key.probe)
    known = change.telling
    where = f"{recipe.name} {probe.name}"
    if probe.name not in WAYS or not known.error:
        fix = f"Run it again alone: --model {recipe.name} --probe {probe.name}."
        raise refuse(Problem(where, "has no script: it is no exception of a plain call", fix))
    before, after = sides
    ends = Sides(before, after) if change.kind is Kind.FIXED else Sides(after, before)

    def shows(configs: Sequence[Mapping[str, Any]]) -> list[bool]:
        texts = [_text(recipe, config, probe, known.headline, ends) for config in configs]
        return _shown(texts, probe, known.signature, runner, ends)

    config = dict(recipe.content["config"])
    if shows([config]) != [True]:
        what = f"its script does not fail on {ends.bad} and pass on {ends.good}"
        fix = "Weights are random there, not filled by name: write the case by hand."
        raise RunnerError([Problem(where, what, fix)], ExitCode.NOT_REPRODUCED)
    small = smallest(config, shows)
    return _text(recipe, small, probe, known.headline, ends)


def smallest(
    config: Mapping[str, Any], shows: Callable[[Sequence[Mapping[str, Any]]], list[bool]]
) -> dict[str, Any]:
    """Return the config without the fields that can go; `shows` says it of several at once."""
    paths = [path for path in _paths(config) if path[-1] != "model_type"]
    alone = shows([without(config, [path]) for path in paths])
    can_go = [path for path, still in zip(paths, alone, strict=True) if still]
    if shows([without(config, can_go)]) == [True]:
        return without(config, can_go)
    gone: list[Path] = []
    for path in can_go:
        if shows([without(config, [*gone, path])]) == [True]:
            gone.append(path)
    return without(config, gone)


def _paths(config: Mapping[str, Any], above: Path = ()) -> Iterator[Path]:
    for name, value in config.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from _paths(value, (*above, name))


def without(config: Mapping[str, Any], paths: Iterable[Path]) -> dict[str, Any]:
    """Return a copy of a config without the fields of some paths."""
    left: dict[str, Any] = copy.deepcopy(dict(config))
    for *above, name in paths:
        holder: Any = left
        for each in above:
            holder = holder.get(each, {})
        holder.pop(name, None)
    return left


def _shown(
    texts: Sequence[str], probe: ProbeName, signature: str, runner: SweepRunner, ends: Sides
) -> list[bool]:
    """Say of each script whether it fails as it should on one side and passes on the other."""
    cases = {
        f"script{number}": read_script(text, f"script{number}.py", f"/script{number}.py")
        for number, text in enumerate(texts)
    }
    fails, passes = (_run(cases, probe, runner, release) for release in ends)
    return [
        (failed := fails[name].failed) is not None
        and failed.signature == signature
        and passes[name].outcome is Outcome.PASSES
        for name in cases
    ]


def _run(
    cases: Mapping[str, Case], probe: ProbeName, runner: SweepRunner, release: str
) -> dict[str, Observation]:
    precision = Precision(probe.dtype)
    cells = tuple(Cell(name, "", release, precision, Device.CPU) for name in cases)
    planned = runner.planned({release: cases})
    ready = planned.prepare(Unit(environment=release, cells=cells))
    return {row.cell.case: row for row in measure(ready, cases, planned.terms)}


# The text


def _text(
    recipe: ModelRecipe, config: Mapping[str, Any], probe: ProbeName, error: str, ends: Sides
) -> str:
    way = WAYS[probe.name]
    content = {name: value for name, value in config.items() if name != "model_type"}
    lines = [
        *_block(recipe, way, error),
        f'"""{recipe.class_name}: {probe.holds}',
        "",
        f"It fails on transformers {ends.bad} and passes on {ends.good}.",
        '"""',
        "",
        "import os",
        "import sys",
        "",
        "import torch",
        f"from transformers import CONFIG_MAPPING, {recipe.class_name}",
        "",
        'DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}',
        f"CONFIG = {content!r}",
        "",
        "",
        "def main(precision: str) -> None:",
        '    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))',
        "    dtype = DTYPES[precision]",
        f'    config = CONFIG_MAPPING["{recipe.type}"].from_dict(CONFIG)',
        f"    model = {recipe.class_name}(config).eval()",
        "    inputs = {",
        *(f"        {name!r}: {_value(spec, way)}," for name, spec in _inputs(recipe, probe)),
        "    }",
        *(f"    {line}" for line in way.lines),
        "",
        "",
        'if __name__ == "__main__":',
        "    main(*sys.argv[1:])",
    ]
    return "\n".join(lines) + "\n"


def _block(recipe: ModelRecipe, way: ScriptWay, error: str) -> list[str]:
    return [
        "# /// script",
        '# requires-python = ">=3.10"',
        f'# dependencies = ["torch", "transformers>={recipe.home}"]',
        "#",
        "# [tool.repromatrix]",
        f"# title = {json.dumps(f'{recipe.class_name}: {error}'[:100])}",
        "# reports = []",
        '# found-by = "sweep"',
        '# area = "sweep"',
        f"# models = [{json.dumps(recipe.type)}]",
        f"# trigger = {json.dumps(list(way.trigger))}",
        '# symptom = ["error"]',
        "# ///",
    ]


def _inputs(recipe: ModelRecipe, probe: ProbeName) -> list[tuple[str, Any]]:
    generates = probe.family == "generate"
    inputs: Mapping[str, Any] = recipe.content["inputs"]
    return [
        (name, spec)
        for name, spec in inputs.items()
        if not (generates and name.startswith("decoder_"))
    ]


def _value(spec: Any, way: ScriptWay) -> str:  # noqa: ANN401 - whatever a forward pass takes
    if not isinstance(spec, dict):
        return repr(spec)
    ((kind, value),) = spec.items()
    cast = "" if way.raw else ", dtype=dtype"
    match kind:
        case "ids":
            return f"torch.tensor({value})"
        case "bools":
            return f"torch.tensor({value}, dtype=torch.bool)"
        case "normal" | "uniform":
            return f"torch.{'randn' if kind == 'normal' else 'rand'}({value}{cast})"
        case "floats":
            return f"torch.tensor({value}{cast})"
        case _:
            return f"[{', '.join(_value(each, way) for each in value)}]"
