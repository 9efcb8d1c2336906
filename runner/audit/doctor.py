"""`doctor`: which known bugs can hit this process, given the model that it has built.

A model is looked at by its attributes alone: no package that it comes from is imported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from repromatrix.runner.audit import asking
from repromatrix.runner.audit.hits import Audit, Hit, audit
from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.audit.questions import AuditQuestion, Spot
from repromatrix.runner.audit.render import document
from repromatrix.runner.audit.settings import AuditTerms
from repromatrix.runner.document import Paragraph, write
from repromatrix.runner.model.case import Case, Trigger
from repromatrix.runner.model.families import meant
from repromatrix.runner.model.outcomes import Device, Precision
from repromatrix.runner.paths import Paths
from repromatrix.runner.planning.selection import SelectionRequest, families_of
from repromatrix.runner.text import join, plural

_IN_16_BIT = {Trigger.AUTOCAST, Trigger.TRAINER, Trigger.DISTRIBUTED}
"""What computes in 16 bit with weights in fp32."""
_MORE = "`text(verbose=True)` shows the errors and workarounds."


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFacts:
    """What was read from a model; empty where it does not say it."""

    name: str = ""
    """Its class."""
    types: tuple[str, ...] = ()
    """The `model_type` of its config and of the configs inside."""
    dtypes: tuple[str, ...] = ()
    """Those of its parameters, as torch names them: `bfloat16`."""
    device: str = ""
    attention: str = ""
    cache: str = ""
    """The cache that its generation config asks for."""
    can_generate: bool = True

    @property
    def precisions(self) -> tuple[Precision, ...]:
        """The precisions of its weights."""
        return tuple(one for one in Precision if one.dtype in self.dtypes)

    def families(self, cases: Mapping[str, Case]) -> frozenset[str]:
        """Return the families of models, as cases name them, that it has or has parts of."""
        known = families_of(cases)
        return known & {name for kind in self.types for name in meant(kind, known)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """The answer of `doctor`."""

    audit: Audit
    model: ModelFacts | None
    notes: tuple[str, ...]
    """What was left out because of the model, and what could not be decided."""
    terms: AuditTerms
    """The settings of the project."""
    swept: tuple[str, ...] = ()
    """What the sweep found of architectures that the model has, in lines for people."""

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The known bugs that can hit this process."""
        return self.audit.hits

    @property
    def families(self) -> tuple[str, ...]:
        """The families of models that were asked for, as cases name them."""
        return tuple(sorted(self.audit.question.models))

    @property
    def versions(self) -> Mapping[str, str]:
        """The installed packages, by their canonical names."""
        return self.audit.installed.pins

    def text(self, *, verbose: bool = False) -> str:
        """Return the answer for people; with `verbose` every error, and every unknown cell."""
        model = [_described(self.model)] if self.model else []
        answer = document(self.audit, self.terms, verbose=verbose, more=_MORE)
        parts = [Paragraph([*model, *self.notes]), *answer.parts, Paragraph(self.swept)]
        return write(dataclasses.replace(answer, parts=parts), "text")

    def __str__(self) -> str:
        """Return the answer for people."""
        return self.text()


def facts(model: object) -> ModelFacts:
    """Return what a model says of itself. Pure; anything may be missing."""
    while not hasattr(model, "config") and hasattr(model, "module"):
        model = model.module  # what trains in parallel wraps it
    config = getattr(model, "config", None)
    generation = getattr(model, "generation_config", None)
    can_generate = getattr(model, "can_generate", None)
    return ModelFacts(
        name=type(model).__name__,
        types=tuple(dict.fromkeys(_types(config))),
        dtypes=tuple(dict.fromkeys(_dtypes(model))),
        device=_text(model, "device"),
        attention=_text(config, "_attn_implementation"),
        cache=_text(generation, "cache_implementation"),
        can_generate=not callable(can_generate) or bool(can_generate()),
    )


def _text(holder: object, name: str) -> str:
    return str(getattr(holder, name, None) or "")


def _types(config: object) -> Iterator[str]:
    if isinstance(kind := getattr(config, "model_type", None), str):
        yield kind
        for part in getattr(config, "__dict__", {}).values():
            yield from _types(part)


def _dtypes(model: Any) -> Iterator[str]:  # noqa: ANN401 - whatever has parameters
    holders = model.parameters() if hasattr(model, "parameters") else [model]
    for holder in holders:
        if dtype := _text(holder, "dtype"):
            yield dtype.removeprefix("torch.")


def diagnose(
    installed: Installed, model: ModelFacts | None, paths: Paths, warn: Callable[[str], None]
) -> Diagnosis:
    """Return which known bugs can hit a process with these packages and this model.

    Without a model all cases are asked; what it says of itself counts before the settings of the
    project. Raises RunnerError for evidence or settings that cannot be read.
    """
    said = {"models": model.types, "precisions": model.precisions} if model else {}
    loaded, question, _, terms = asking.asked(
        paths, SelectionRequest(), but=[key for key, words in said.items() if words]
    )
    question = narrowed(question, model, loaded.cases) if model else question
    known = asking.known_of(loaded, question, warn, installed)
    if question.device is not Device.CPU and not any(known.ran_on(question.device)):
        question = dataclasses.replace(question, device=Device.CPU)
        known = asking.known_of(loaded, question, warn, installed)
    notes = tuple(_notes(model, question, loaded.cases)) if model else ()
    found = audit(installed, known, question)
    return Diagnosis(audit=found, model=model, notes=notes, terms=terms)


def narrowed(
    question: AuditQuestion, model: ModelFacts, cases: Mapping[str, Case]
) -> AuditQuestion:
    """Return a question without what the model cannot meet, as the cases describe it. Pure.

    What is not known of the model leaves nothing out.
    """
    families = model.families(cases)
    chosen = tuple(
        name
        for name in question.cases
        if (not model.types or cases[name].block.is_about(families))
        and (model.can_generate or cases[name].block.triggers != (Trigger.GENERATE,))
    )
    held = model.precisions or question.precisions
    mixed = [*Precision] if held == (Precision.FP32,) else []
    return dataclasses.replace(
        question,
        cases=chosen,
        precisions=tuple(one for one in question.precisions if one in (*held, *mixed)),
        device=next((one for one in Device if one == model.device.partition(":")[0]), Device.CPU),
        ignored=question.ignored if chosen else frozenset(cases),  # no case would mean all
        models=families,
        left_out=frozenset(
            Spot(name, precision)
            for name in chosen
            for precision in {*mixed} - {*held}
            if _IN_16_BIT.isdisjoint(cases[name].block.triggers or _IN_16_BIT)
        ),
    )


def _described(model: ModelFacts) -> str:
    named = {"on": model.device, "attention": model.attention, "cache": model.cache}
    facts = [join(model.types), join(model.dtypes)]
    facts += [f"{word} {value}" for word, value in named.items() if value]
    return f"{model.name}: {'; '.join(filter(None, facts)) or 'it says nothing of itself'}."


def _notes(model: ModelFacts, question: AuditQuestion, cases: Mapping[str, Case]) -> Iterator[str]:
    """Yield what was left out because of a model, and what could not be decided."""
    names = join(sorted(question.models)) or "none of its types"
    about = f"those about {names}, or about any model" if model.types else "its type is not known"
    yield f"Asked: {len(question.cases):,} of {plural(len(cases), 'case')} ({about})."
    if not model.precisions:
        yield "Its weights are in none of fp32, bf16 and fp16: all of them are asked."
    if question.left_out:
        yield (
            "Its weights are in fp32: of bf16 and fp16 only what autocast, the Trainer or"
            " distributed training leads to is asked."
        )
    if model.device and model.device.partition(":")[0] != question.device:
        yield f"Nothing is measured on {model.device}: the answers are those of a CPU."
    if model.attention or model.cache:
        yield "No case says which attention or cache it needs: none was left out for that."
