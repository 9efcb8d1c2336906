"""The cells of the sweep, scripts of ours that the runner takes for cases, and their answers.

A family of probes on one architecture is one cell, in a process of its own: `llama/forward`. On
further classes all cheap probes share one: `bert:BertForMaskedLM/cheap`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from repromatrix.runner.evidence.swept.probes import BUILD, PROBES, ProbeName
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeRecord, ProbeStatus
from repromatrix.runner.model.case import Block, Case, CaseHead, Script
from repromatrix.runner.model.cell import PROTOCOL, Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.sweep.recipe_files import ModelRecipe

CHILD = Path(__file__).resolve().parent / "child"
SECONDS = 120.0
"""What the probes of a family may take on one architecture."""
TYPES = "*/types"
"""The cell that lists the architectures of a release."""
CHEAP = "cheap"
"""The cell of the cheap probes of a further class."""
_FP16 = "-fp16"
_MAKING, _LISTING = "recipe", "types"
_CELL, _CELL_LATER = "cell.py", "cell_later.py"
_SHARED = (_CELL, "main.py", "recipe.py")
_LATER = (_CELL_LATER, "later.py")
_PROBING = ("probes/run.py", "probes/subject.py")
_SHRINKING = (
    "shrink.py",
    "fields.py",
    "tokens.py",
    "amend.py",
    "guess_inputs.py",
    "repairs.py",
    "later.py",
)
_USED = {
    "train": ("probes/gradients.py",),
    "lora": ("probes/gradients.py",),
    "half": ("probes/trainer.py",),
    "long": ("probes/attention.py", "probes/generate.py", "tokens.py", "fields.py"),
    "range": ("probes/gradients.py", "probes/half.py", "probes/trainer.py"),
}
"""The modules that the probes of a family share with others."""
_MEASURED_AS = {
    "repromatrix.runner.evidence.swept.probes": "repromatrix.runner.sweep.child.probes.names",
    "repromatrix.sweep.": "repromatrix.runner.sweep.",
}
"""What modules were called when published releases were measured: identities keep these names."""


def probe_case(
    recipe: ModelRecipe,
    family: str,
    probes: Sequence[ProbeName],
    seed: int = 0,
    *,
    alone: bool = False,
) -> Case:
    """Return the script that runs probes of one family on an architecture.

    `alone` names it after its only probe and the seed: `llama/forward#loaded-bf16@1`.
    """
    request = {
        "task": "probes",
        "recipe": dict(recipe.content),
        "probes": [probe.name for probe in probes],
        "seed": seed,
    }
    name = f"{recipe.name}/{family}"
    name += _FP16 if all(probe.dtype == "fp16" for probe in probes) and not alone else ""
    name += f"#{probes[0].name}@{seed}" if alone else ""
    if recipe.later:
        return _script(name, request, (*_modules(probes), *_LATER), _CELL_LATER)
    return _script(name, request, _modules(probes))


def _modules(probes: Iterable[ProbeName]) -> tuple[str, ...]:
    families = dict.fromkeys(probe.family for probe in probes)
    used = (module for one in families for module in (f"probes/{one}.py", *_USED.get(one, ())))
    return (*_PROBING, *used)


def code_of(lacking: Iterable[str]) -> str:
    """Return the identity of the code of all probes but those that a release `lacks`.

    16 hexadecimal digits. What a recipe holds is another matter.
    """
    absent = {*lacking}
    ran = [probe for probe in PROBES if probe.name not in absent]
    modules = sorted({*_SHARED, *_modules(ran)})
    names = " ".join([str(PROTOCOL), _digest(tuple(modules)), *(probe.name for probe in ran)])
    return hashlib.sha256(names.encode()).hexdigest()[:16]


def probe_cases(recipes: Iterable[ModelRecipe], probes: Sequence[ProbeName]) -> dict[str, Case]:
    """Return a script for each architecture and family of some probes.

    Probes in fp16 have cells of their own (`llama/forward-fp16`): most sweeps leave them out.
    """
    families = {further: _families(probes, further=further) for further in (False, True)}
    cases = (
        probe_case(recipe, family, some)
        for recipe in recipes
        for (family, _), some in families[recipe.is_further].items()
    )
    return {case.name: case for case in cases}


def _families(
    probes: Iterable[ProbeName], *, further: bool
) -> dict[tuple[str, bool], list[ProbeName]]:
    """Return the probes that share a process, by its name and whether they are in fp16."""
    found: dict[tuple[str, bool], list[ProbeName]] = {}
    for probe in probes:
        family = CHEAP if further and probe.cheap else probe.family
        found.setdefault((family, probe.dtype == "fp16"), []).append(probe)
    return found


def recipe_case(kind: str, hints: Mapping[str, Any]) -> Case:
    """Return the script that makes a recipe for an architecture."""
    request = {"task": _MAKING, "type": kind, "hints": dict(hints)}
    return _script(f"{kind}/{_MAKING}", request, _SHRINKING)


def class_case(base: ModelRecipe, class_name: str) -> Case:
    """Return the script that makes the recipe of a further class from that of its architecture."""
    content = {key: value for key, value in base.content.items() if key != "weights"}
    request = {"task": _MAKING, "recipe": content, "class": class_name}
    return _script(f"{base.type}:{class_name}/{_MAKING}", request, (*_SHRINKING, "further.py"))


def types_case() -> Case:
    """Return the script that lists the architectures of a release."""
    return _script(TYPES, {"task": _LISTING}, ("universe.py",))


def cell_of(case: Case, environment: str) -> Cell:
    """Return the cell of a script in an environment; which dtypes it computes in is its own."""
    return Cell(case.name, "", environment, Precision.FP32, Device.CPU)


def kind_and_probes(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the architecture of a cell, by its name, and the names of its probes."""
    kind, _, rest = name.partition("/")
    family, _, alone = rest.partition("#")
    if alone:
        return kind, (alone.partition("@")[0],)
    fp16 = family.endswith(_FP16)
    shared = _families(PROBES, further=":" in kind)
    return kind, tuple(probe.name for probe in shared.get((family.removesuffix(_FP16), fp16), ()))


def chosen_probes(*, fp16: bool) -> tuple[ProbeName, ...]:
    """Return the probes, those in fp16 only where they are asked for."""
    return tuple(probe for probe in PROBES if fp16 or probe.dtype != "fp16")


def cheap_probes() -> tuple[ProbeName, ...]:
    """Return the probes that are run on every class of an architecture."""
    return tuple(probe for probe in PROBES if probe.cheap)


def _script(
    name: str, request: Mapping[str, Any], modules: Sequence[str], cell: str = _CELL
) -> Case:
    text = _text(cell)
    request = {**request, "code": _digest((*_SHARED, *modules))}
    return Case(
        name=name,
        where=f"the sweep: {name}",
        head=CaseHead(dependencies=("torch", "transformers")),
        block=Block(
            title=name, area="sweep", models=(name.partition("/")[0],), reports=(), timeout=SECONDS
        ),
        script=Script(table={}, block="", code=_as_measured(text), first_line=1, text=text),
        path=str(CHILD / cell),
        beside=str(CHILD),
        environ={"REPRO_SWEEP": json.dumps(request)},
    )


@cache
def _text(name: str) -> str:
    """Return the code of a module, nothing where there is none."""
    path = CHILD / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


@cache
def _digest(modules: tuple[str, ...]) -> str:
    """Return the identity of what runs: evidence of other code answers for nothing."""
    found = hashlib.sha256()
    for name in modules:
        found.update(_as_measured(_text(name)).encode())
    return found.hexdigest()[:16]


def _as_measured(text: str) -> str:
    """Return the code of a module with the names that others had when it was measured."""
    for name, earlier in _MEASURED_AS.items():
        text = text.replace(name, earlier)
    return text


def records(rows: Iterable[Observation]) -> dict[ProbeKey, ProbeRecord]:
    """Return what probes found, from the cells of one release."""
    return {record.key: record for row in rows for record in read_row(row)}


def read_row(row: Observation) -> Iterator[ProbeRecord]:
    """Yield the records of a cell, first whether its architecture was built.

    Where its process did not answer, its probes are unknown.
    """
    kind, probes = kind_and_probes(row.cell.case)
    answer = _answer(row)
    if answer is None:
        for probe in probes:
            yield ProbeRecord(
                key=ProbeKey(kind, probe),
                status=ProbeStatus.UNKNOWN,
                error=row.failed.error_class if row.failed else "",
                message=row.failed.message if row.failed else "",
                why=row.described,
            )
        return
    built = answer.get("built")
    how = {"status": "fails", **built} if isinstance(built, dict) else {"status": "holds"}
    yield _record(kind, {"probe": BUILD, **how})
    for said in answer.get("probes", ()):
        yield _record(kind, said)


def _answer(row: Observation) -> dict[str, Any] | None:
    try:
        answer = json.loads(row.output) if row.outcome is Outcome.PASSES else None
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _record(kind: str, said: Mapping[str, Any]) -> ProbeRecord:
    return ProbeRecord(
        key=ProbeKey(kind, str(said.get("probe", ""))),
        status=ProbeStatus(said["status"]),
        error=said.get("error") or "",
        message=said.get("message") or "",
        place=said.get("place") or "",
        value=said.get("value"),
        why=said.get("why") or "",
        summary=said.get("summary") or {},
    )
