"""The text of a script: a probe on a tiny model, in the contract of `cases/`."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from repromatrix.runner.evidence.swept.changes import TOLERANCE, Kind, ProbeChange
from repromatrix.runner.evidence.swept.probes import ProbeName
from repromatrix.runner.scripts.python_text import wrapped
from repromatrix.sweep.child.tokens import plain_token
from repromatrix.sweep.recipe_files import ModelRecipe
from repromatrix.sweep.script_ways import (
    FULL,
    HALF,
    LACKING,
    OUT,
    PADS,
    PLAIN,
    SPECIAL,
    WAYS,
    ScriptWay,
    named,
)

_MASKS = {"input_ids": "attention_mask", "decoder_input_ids": "decoder_attention_mask"}
_COMPUTING = {"forward", "backward", "generate", "trainer"}
_SAMPLES = 8
_VALUES = """
def generator(name: str) -> torch.Generator:
    made = torch.Generator()
    return made.manual_seed(zlib.crc32(f"{os.environ.get('REPRO_SEED', '0')}:{name}".encode()))


def values(name: str, shape: list[int]) -> torch.Tensor:
    drawn = torch.randn(shape, generator=generator(name))
    if len(shape) > 1:
        return drawn / math.prod(shape[1:]) ** 0.5
    return 0.1 * drawn + name.endswith(".weight")

"""
_FILL = '''
def fill(model: torch.nn.Module) -> None:
    """Fill each parameter from its name; a tied one from the first of its names."""
    for name, value in sorted(model.named_parameters(remove_duplicate=False), reverse=True):
        is_computed = not value.requires_grad and "position" in name
        if value.is_floating_point() and not is_computed:
            value.data.copy_(values(name, value.shape))

'''
_MODULES = ("copy", "inspect", "math", "os", "sys", "zlib")
_PACKAGES = {
    "accelerate": ("Accelerator",),
    "peft": ("LoraConfig", "PeftModel", "TrainableTokensConfig", "get_peft_model"),
    "safetensors.torch": ("save_file",),
    "transformers": ("CONFIG_MAPPING", "Trainer", "TrainingArguments"),
}


class Side(NamedTuple):
    """A release and a precision in which a script is run."""

    release: str
    precision: str


class ScriptEnds(NamedTuple):
    """Where a script is to fail, and where to pass."""

    bad: Side
    good: Side

    def __str__(self) -> str:
        """Return both in a sentence."""
        bad, good = self
        if bad.release == good.release:
            return f"fails on transformers {bad.release} in {bad.precision} and passes in fp32"
        return f"fails on transformers {bad.release} and passes on {good.release}"


class ScriptSubject(NamedTuple):
    """What a script is about."""

    recipe: ModelRecipe
    probe: ProbeName
    change: ProbeChange
    ends: ScriptEnds


class ScriptForm(NamedTuple):
    """One of the ways of writing a script out."""

    output: str = ""
    """The path of the output that is looked at; the first where there is none."""
    filled: bool = False
    """Whether weights and inputs are filled by name."""
    weights: Mapping[str, Sequence[int]] | None = None
    """What a checkpoint holds: names and shapes."""
    lacking: str = ""
    """The weight that a checkpoint does not hold."""
    wanted: Mapping[str, Any] | None = None
    """What the good side says of the output: `shape`, `norm`, `samples`."""


def text_of(told: ScriptSubject, config: Mapping[str, Any], form: ScriptForm) -> str:
    """Return the script of a finding in some form, with some fields of the config."""
    way = way_of(told, form)
    main = _main(told, way, form)
    helpers = _helpers(main)
    ending = ["", "", 'if __name__ == "__main__":', "    main(*sys.argv[1:])"]
    lines = [*_constants(told, config, form, main), "", "", *helpers, *main, *ending]
    laid = ((line.lstrip(), line) for line in lines)
    body = [part for code, line in laid for part in wrapped(code, line.removesuffix(code))]
    parts = [*_block(told, way), *_docstring(told), "", *_imports(told, body), "", *body]
    return "\n".join(parts) + "\n"


def way_of(told: ScriptSubject, form: ScriptForm) -> ScriptWay:
    """Return how the probe of a finding is written out."""
    return LACKING if form.lacking else WAYS[told.probe.name]


def lines_of(told: ScriptSubject, way: ScriptWay, form: ScriptForm) -> tuple[str, ...]:
    """Return what `main` does with its model, with the placeholders of the table."""
    if told.change.kind is Kind.NUMBERS:
        return (*named(way.act), *_numbers(told.probe, form))
    if told.change.kind is Kind.SHAPES:
        return _shape(way.act, told, form)
    return way.act if told.change.telling.error else way.oracle


def _numbers(probe: ProbeName, form: ScriptForm) -> tuple[str, ...]:
    limit = TOLERANCE[probe.dtype]
    norm = f"{(form.wanted or {}).get('norm', 0.0):.6g}"
    return (
        "found = found.flatten().double()",
        "values_there = found[[*WANTED]]",
        "wanted = torch.tensor([*WANTED.values()]).double()",
        'measured["output_relative_error"] = float((values_there - wanted).norm() / wanted.norm())',
        f'measured["norm_relative_error"] = float(abs(found.norm() / {norm} - 1))',
        f'assert measured["output_relative_error"] < {limit}',
        f'assert measured["norm_relative_error"] < {limit}',
    )


def _shape(act: tuple[str, ...], told: ScriptSubject, form: ScriptForm) -> tuple[str, ...]:
    shape = list((form.wanted or {}).get("shape", ()))
    if form.output in told.change.after.summary:
        return (*named(act), f"assert list(found.shape) == {shape}")
    *first, call = act
    return (
        *first,
        f'found = getattr({call}, "{form.output}", None)',
        f"assert torch.is_tensor(found) and list(found.shape) == {shape}",
    )


def _main(told: ScriptSubject, way: ScriptWay, form: ScriptForm) -> list[str]:
    lines = lines_of(told, way, form)
    casts = HALF in lines and bool(told.change.telling.error)
    body = [*_expanded(lines, told, form, casts=casts)]
    is_plain = not (casts or any("dtype" in line for line in body))
    builds = not (body and body[0].startswith("config."))
    model = f"    model = {told.recipe.class_name}(config){'.to(dtype)' * is_plain}.eval()"
    inputs = _inputs(told, way, form, cast=casts or is_plain)
    return [
        *([] if way.backward else ["@torch.no_grad()"]),
        "def main(precision: str) -> None:",
        '    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))',
        "    dtype = DTYPES[precision]",
        f'    config = CONFIG_MAPPING["{told.recipe.type}"].from_dict(CONFIG)',
        *([model] if builds else []),
        *(["    fill(model)"] if form.filled and builds else []),
        *(inputs if any("inputs" in line for line in body) else ()),
        *(f"    {line}" for line in body),
    ]


def _expanded(
    lines: Sequence[str], told: ScriptSubject, form: ScriptForm, *, casts: bool
) -> Iterator[str]:
    """Put what the recipe has in the place of the placeholders; casts of inputs are made once."""
    output = f".{form.output}" if form.output else "[0]"
    measured = "logits" if form.output.endswith("logits") else "output"
    special, plain = plain_token(told.recipe.content["config"])
    pads = tuple(pair for pair in _MASKS.items() if pair[0] in told.recipe.content["inputs"])
    floats = [name for name, spec in told.recipe.content["inputs"].items() if _is_float(spec)]
    for line in lines:
        if line in {HALF, FULL}:
            to = "float()" if line == FULL else "to(dtype)"
            if line == FULL or not casts:
                yield from (f'inputs["{name}"] = inputs["{name}"].{to}' for name in floats)
            continue
        pairs = {
            OUT: output,
            "CLASS": told.recipe.class_name,
            PADS: repr(pads),
            SPECIAL: repr(special),
            PLAIN: str(plain),
            "LACKING": json.dumps(form.lacking),
            "output_relative_error": f"{measured}_relative_error",
        }
        yield functools.reduce(lambda text, pair: text.replace(*pair), pairs.items(), line)


def _inputs(told: ScriptSubject, way: ScriptWay, form: ScriptForm, *, cast: bool) -> Iterator[str]:
    generates = told.probe.family == "generate"
    given = {**told.recipe.content["inputs"]}
    if told.probe.family == "long":  # which takes nothing but the text
        given = {"input_ids": given["input_ids"]}
    if way.labelled:
        given |= told.recipe.content.get("targets", {})
    yield "    inputs = {"
    for name, spec in given.items():
        if not (generates and name.startswith("decoder_")):
            yield f'        "{name}": {_value(name, spec, form, cast=cast)},'
    yield "    }"
    if told.recipe.later:
        yield f"    takes = inspect.signature({told.recipe.class_name}.forward).parameters"
        yield "    inputs = {name: value for name, value in inputs.items() if name in takes}"


def _is_float(spec: Any) -> bool:  # noqa: ANN401 - whatever a forward pass takes
    return isinstance(spec, dict) and not spec.keys().isdisjoint({"normal", "uniform", "floats"})


def _value(name: str, spec: Any, form: ScriptForm, *, cast: bool) -> str:  # noqa: ANN401
    if not isinstance(spec, dict):
        return repr(spec)
    ((kind, value),) = spec.items()
    to = ".to(dtype)" if cast and _is_float(spec) else ""
    by_name = f', generator=generator("{name}")' if form.filled else ""
    match kind:
        case "ids":
            return f"torch.tensor({value})"
        case "bools":
            return f"torch.tensor({value}, dtype=torch.bool)"
        case "normal" | "uniform":
            return f"torch.{'randn' if kind == 'normal' else 'rand'}({value}{by_name}){to}"
        case "floats":
            return f"torch.tensor({value}){to}"
        case _:
            parts = enumerate(value)
            made = (_value(f"{name}.{at}", each, form, cast=cast) for at, each in parts)
            return f"[{', '.join(made)}]"


def _helpers(main: Sequence[str]) -> list[str]:
    fills = "    fill(model)" in main
    draws = fills or any("values(name" in line for line in main)
    text = (_VALUES if draws else "") + (_FILL if fills else "")
    return [*text.splitlines()[1:], ""] if text else []


def _constants(
    told: ScriptSubject, config: Mapping[str, Any], form: ScriptForm, main: Sequence[str]
) -> Iterator[str]:
    content = {name: value for name, value in config.items() if name != "model_type"}
    yield 'DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}'
    yield f"CONFIG = {content!r}"
    if form.weights is not None:
        shapes = {name: list(shape) for name, shape in form.weights.items()}
        yield f"WEIGHTS = {shapes!r}"
    if told.change.kind is Kind.NUMBERS:
        yield f"WANTED = {_places(form.wanted or {})!r}"
    if any("measured[" in line for line in main):
        yield "measured: dict[str, float] = {}"


def _places(wanted: Mapping[str, Any]) -> dict[int, float]:
    """Return the values that a summary holds of a tensor, by their places when it is flat."""
    last = max(0, math.prod(wanted["shape"]) - 1)
    samples = enumerate(wanted["samples"])
    return {
        int(at * last / (_SAMPLES - 1)): float(f"{value:.6g}")
        for at, value in samples
        if value is not None
    }


def _imports(told: ScriptSubject, body: Sequence[str]) -> Iterator[str]:
    text = "\n".join(body)
    yield from (f"import {name}" for name in _MODULES if re.search(rf"\b{name}\.", text))
    yield ""
    yield "import torch"
    for package, names in _PACKAGES.items():
        used = [name for name in names if re.search(rf"\b{name}\b", text)]
        used += [told.recipe.class_name] * (package == "transformers")
        if used:
            order = sorted(used, key=lambda name: (not name.isupper(), name[0].islower(), name))
            yield f"from {package} import {', '.join(order)}"


def _docstring(told: ScriptSubject) -> list[str]:
    holds = told.probe.holds
    if told.change.kind is Kind.NUMBERS:
        holds = f"It computes what transformers {told.ends.good.release} computes."
    return [
        f'"""{told.recipe.class_name}: {holds}',
        "",
        f"It {told.ends}.",
        '"""',
    ]


def title_of(told: ScriptSubject) -> str:
    """Return what a script is about, in a line."""
    known, name = told.change.telling, told.recipe.class_name
    match told.change.kind:
        case Kind.NUMBERS:
            return f"{name}: other outputs than on {told.ends.good.release}"
        case Kind.SHAPES:
            return f"{name}: outputs of other shapes than on {told.ends.good.release}"
        case _:
            where = "" if known.error else f"{told.probe.name}: "
            return f"{name}: {where}{known.headline}"


def _symptom(told: ScriptSubject, way: ScriptWay) -> str:
    if told.change.kind in {Kind.NUMBERS, Kind.SHAPES}:
        return "wrong-numbers"
    return "error" if told.change.telling.error else way.symptom


def _block(told: ScriptSubject, way: ScriptWay) -> list[str]:
    recipe = told.recipe
    packages = ["torch", f"transformers>={recipe.home}"]
    accelerates = way.labelled or any("Accelerator(" in line for line in way.act)
    packages += ["peft"] * ("adapter" in way.trigger) + ["accelerate"] * accelerates
    loads = [] if _COMPUTING & {*way.trigger} else ['# exercises = "load"']
    return [
        "# /// script",
        '# requires-python = ">=3.10"',
        f"# dependencies = {json.dumps(packages)}",
        "#",
        "# [tool.repromatrix]",
        f"# title = {json.dumps(title_of(told)[:100])}",
        "# reports = []",
        '# found-by = "sweep"',
        '# area = "sweep"',
        f"# models = [{json.dumps(recipe.type)}]",
        f"# trigger = {json.dumps(list(way.trigger))}",
        f"# symptom = [{json.dumps(_symptom(told, way))}]",
        *loads,
        "# ///",
    ]
