"""A finding as a script in the contract of `cases/`, run on both sides and made small.

Fields of the config are removed while the script still fails on the one side and passes on the
other (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002): first
each field alone, then all removable ones together, else ever longer groups of them.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from repromatrix.runner.errors import ExitCode, Problem, RunnerError, refuse
from repromatrix.runner.evidence.swept.changes import (
    TOLERANCE,
    Kind,
    ProbeChange,
    change_of,
    difference,
)
from repromatrix.runner.evidence.swept.probes import BUILD, PROBES, WEIGHTS, ProbeName
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord
from repromatrix.runner.execution.run import measure
from repromatrix.runner.model.case import Case, read_script
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.matrix import Limits
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.planning.plan import Unit
from repromatrix.runner.text import plural
from repromatrix.sweep.cells import probe_case, records
from repromatrix.sweep.findings import SweepFinding
from repromatrix.sweep.measure import SweepRunner
from repromatrix.sweep.recipe_files import ModelRecipe
from repromatrix.sweep.script_text import (
    ScriptEnds,
    ScriptForm,
    ScriptSubject,
    Side,
    lines_of,
    text_of,
    way_of,
)
from repromatrix.sweep.script_ways import OUT, WAYS

Path = tuple[str, ...]
Config = Mapping[str, Any]
_BY_NAME = {
    BUILD: ProbeName(BUILD, "build", "fp32", "The architecture is built."),
    **{probe.name: probe for probe in PROBES},
}
_COMPARED = {Kind.NUMBERS, Kind.SHAPES}
_SETTING = re.compile(r"not with (\w+)=([\w.]+)")


def script_of(
    finding: SweepFinding,
    recipes: Mapping[str, ModelRecipe],
    runner: SweepRunner,
    sides: tuple[str, str],
    tell: Callable[[str], None],
) -> str:
    """Return the script of a finding; raises RunnerError where none shows it on both sides.

    `tell` hears how far it is, every few seconds.
    """
    told = told_of(finding, recipes, sides)
    config = dict(told.recipe.content["config"])
    if told.change.kind in _COMPARED:
        config, change = _small_change(told, config, runner, tell)
        told = told._replace(change=change)
    forms = [*_forms(told, runner)]
    shown = _shown([text_of(told, config, form) for form in forms], told, runner)
    form = next((form for form, is_shown in zip(forms, shown, strict=True) if is_shown), None)
    if form is None:
        raise _not_shown(told)
    if told.change.kind in _COMPARED:
        return text_of(told, config, form)

    within = _within(_SMALL, runner)

    def shows(configs: Sequence[Config]) -> list[bool]:
        tell(_trying(configs))
        return _shown([text_of(told, one, form) for one in configs], told, within)

    return text_of(told, smallest(config, shows), form)


def told_of(
    finding: SweepFinding, recipes: Mapping[str, ModelRecipe], sides: tuple[str, str]
) -> ScriptSubject:
    """Return which of the changes of a finding is written out; raises RunnerError where none is.

    What is bad on one release, and no change, is held against fp32 there.
    """
    order = [*WAYS]
    change = min(finding.changes, key=lambda one: order.index(one.after.key.probe))
    key = change.after.key
    probe = _BY_NAME[key.probe]
    older, newer = sides
    before, after = Side(older, probe.dtype), Side(newer, probe.dtype)
    if change.kind is Kind.OTHER:
        what = f"it fails on {older} and on {newer}, each in its way: no script passes on one"
        fix = "Give --against a release on which it holds."
        raise refuse(Problem(f"{key.kind} {probe.name}", what, fix))
    if change.before is change.after:
        before = Side(newer, "fp32")
    ends = ScriptEnds(before, after) if change.kind is Kind.FIXED else ScriptEnds(after, before)
    recipe = with_setting(recipes[key.kind], change.telling.why)
    return ScriptSubject(recipe, probe, change, ends)


def with_setting(recipe: ModelRecipe, why: str) -> ModelRecipe:
    """Return a recipe with the first setting that a probe names: `not with rotary_pct=0.5`.

    Where the config has no such field of its own it is put beside those of the model.
    """
    if not (told := _SETTING.match(why)):
        return recipe
    name, value = told[1], json.loads(told[2].lower())
    config = copy.deepcopy(dict(recipe.content["config"]))
    above = next((path[:-1] for path in _paths(config) if path[-1] == name), ())
    functools.reduce(lambda node, part: node[part], above, config)[name] = value
    return ModelRecipe(content={**recipe.content, "config": config})


def _not_shown(told: ScriptSubject) -> RunnerError:
    what = f"no script of it {told.ends}"
    fix = "Write the case by hand: "
    fix += f"`nox -s sweep -- --model {told.recipe.name} --probe {told.probe.name}` shows it."
    problem = Problem(f"{told.recipe.name} {told.probe.name}", what, fix)
    return RunnerError([problem], ExitCode.NOT_REPRODUCED)


def _forms(told: ScriptSubject, runner: SweepRunner) -> Iterator[ScriptForm]:
    """Yield the ways of writing a script out, the plainest first: the first that shows is taken."""
    if told.change.kind in _COMPARED:
        yield from _comparing(told)
        return
    known, weights = told.change.telling, told.recipe.content.get("weights", {})
    if told.probe.name == "checkpoint":
        if known.why and "unexpected keys" not in known.why:
            # Nothing was renamed: a new weight, of which older checkpoints have none.
            yield ScriptForm(lacking=known.why.rpartition("such as ")[2])
        else:
            yield from (ScriptForm(weights={name: shape}) for name, shape in weights.items())
        return
    lines = lines_of(told, way_of(told, ScriptForm()), ScriptForm())
    looks = any(OUT in line for line in lines) and not known.error
    outputs = [*_outputs(told, runner), ""] if looks else [""]
    yield from (
        ScriptForm(output=name, filled=filled) for filled in (False, True) for name in outputs
    )


def _outputs(told: ScriptSubject, runner: SweepRunner) -> list[str]:
    """Return the paths of the outputs of the model on the good side, as far as they are known."""
    probe = _BY_NAME["outputs-fp32"]
    config = told.recipe.content["config"]
    (record,) = _probed([config], told.recipe, probe, runner, told.ends.good.release)
    return [name for name in (record.summary if record else ()) if name and name != WEIGHTS]


def _comparing(told: ScriptSubject) -> Iterator[ScriptForm]:
    """Yield a form for each output that is another on both sides."""
    before, after = told.change.before.summary, told.change.after.summary
    limit = TOLERANCE[told.probe.dtype]
    weights = told.recipe.content["weights"] if told.probe.name == "checkpoint" else None
    for name, one in before.items():
        other = after.get(name)
        if name == WEIGHTS or not name:
            continue
        if told.change.kind is Kind.NUMBERS:
            is_other = difference({name: one}, {name: other}) > limit if other else False
        else:
            is_other = other is None or other["shape"] != one["shape"]
        if is_other:
            filled = told.change.kind is Kind.NUMBERS
            yield ScriptForm(output=name, filled=filled, wanted=one, weights=weights)


_SMALL = Limits(seconds=30, memory=1024)
"""Limits of a config that is tried: a field without which the model is large is needed."""
_AT_ONCE = 8
"""Parts in which fields that cannot all go are tried: a round costs a start of both releases."""


def smallest(config: Config, shows: Callable[[Sequence[Config]], list[bool]]) -> dict[str, Any]:
    """Return the config without the fields that can go; `shows` says it of several at once."""
    paths = [path for path in _paths(config) if path[-1] != "model_type"]
    alone = shows([without(config, [path]) for path in paths])
    can_go = [path for path, still in zip(paths, alone, strict=True) if still]
    if shows([without(config, can_go)]) == [True]:
        return without(config, can_go)
    gone: list[Path] = []
    too_many = len(can_go)
    """The least number of the next fields that is known not to go with those that are gone."""
    while can_go:
        if too_many == 1:
            can_go, too_many = can_go[1:], len(can_go)
            continue
        most = too_many - 1
        ends = sorted({max(1, most * part // _AT_ONCE) for part in range(1, _AT_ONCE + 1)})
        asked = [without(config, [*gone, *can_go[:end]]) for end in ends]
        still = dict(zip(ends, shows(asked), strict=True))
        far = max((end for end, holds in still.items() if holds), default=0)
        too_many = min((end for end in ends if end > far), default=too_many) - far
        gone, can_go = [*gone, *can_go[:far]], can_go[far:]
    return without(config, gone)


def _within(limits: Limits, runner: SweepRunner) -> SweepRunner:
    """Return a runner that ends what goes beyond some limits."""
    matrix = runner.project.matrix.model_copy(update={"limits": limits})
    return dataclasses.replace(runner, project=dataclasses.replace(runner.project, matrix=matrix))


def _trying(configs: Sequence[Config]) -> str:
    fields = [sum(1 for _ in _paths(config)) for config in configs]
    few, many = min(fields), max(fields)
    span = f"{few}" if few == many else f"{few} to {many}"
    return f"Trying {plural(len(configs), 'config')} with {span} fields."


def _paths(config: Config, above: Path = ()) -> Iterator[Path]:
    for name, value in config.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from _paths(value, (*above, name))


def without(config: Config, paths: Iterable[Path]) -> dict[str, Any]:
    """Return a copy of a config without the fields of some paths."""
    left: dict[str, Any] = copy.deepcopy(dict(config))
    for *above, name in paths:
        holder: Any = left
        for each in above:
            holder = holder.get(each, {})
        holder.pop(name, None)
    return left


def _small_change(
    told: ScriptSubject, config: Config, runner: SweepRunner, tell: Callable[[str], None]
) -> tuple[dict[str, Any], ProbeChange]:
    """Return a small config of which the probe itself gives other outputs, and the change."""
    within = _within(_SMALL, runner)

    def found(configs: Sequence[Config]) -> list[ProbeChange | None]:
        releases = (told.ends.good.release, told.ends.bad.release)
        old, new = (
            _probed(configs, told.recipe, told.probe, within, release) for release in releases
        )
        pairs = zip(old, new, strict=True)
        return [change_of(one, other) if one and other else None for one, other in pairs]

    def shows(configs: Sequence[Config]) -> list[bool]:
        tell(_trying(configs))
        return [one is not None and one.kind is told.change.kind for one in found(configs)]

    small = smallest(config, shows)
    (change,) = found([small])
    if change is None:
        raise _not_shown(told)
    return small, change


def _probed(
    configs: Sequence[Config],
    recipe: ModelRecipe,
    probe: ProbeName,
    runner: SweepRunner,
    release: str,
) -> list[ProbeRecord | None]:
    """Return what a probe finds on a release with each of some configs."""
    cases = {}
    for number, config in enumerate(configs):
        other = ModelRecipe(content={**recipe.content, "config": config})
        case = probe_case(other, probe.family, [probe], alone=True)
        name = f"{case.name.partition('@')[0]}@{number}"
        cases[name] = dataclasses.replace(case, name=name)
    rows = _run(cases, runner, Side(release, "fp32"))
    key = ProbeKey(recipe.name, probe.name)
    return [records([rows[name]]).get(key) for name in cases]


def _shown(texts: Sequence[str], told: ScriptSubject, runner: SweepRunner) -> list[bool]:
    """Say of each script whether it fails as it should on one side and passes on the other."""
    cases = {
        f"script{number}": read_script(text, f"script{number}.py", f"/script{number}.py")
        for number, text in enumerate(texts)
    }
    fails, passes = (_run(cases, runner, side) for side in told.ends)
    return [
        _fails_so(fails[name], told.change) and passes[name].outcome is Outcome.PASSES
        for name in cases
    ]


def _fails_so(row: Observation, change: ProbeChange) -> bool:
    """Say whether a script fails as its finding: with the same words, or by its own assertion."""
    if row.failed is None:
        return False
    if change.telling.error and change.kind not in _COMPARED:
        return row.failed.signature == change.telling.signature
    return row.failed.error_class == "AssertionError" and row.failed.place.endswith(":main")


def _run(cases: Mapping[str, Case], runner: SweepRunner, side: Side) -> dict[str, Observation]:
    precision = Precision(side.precision)
    cells = tuple(Cell(name, "", side.release, precision, Device.CPU) for name in cases)
    planned = runner.planned({side.release: cases})
    ready = planned.prepare(Unit(environment=side.release, cells=cells))
    return {row.cell.case: row for row in measure(ready, cases, planned.terms)}
