"""What the text of a report suggests for the block of a case: guesses for a person to check. Pure.

The words are those that people write in issues; the area is that of the nearest known case.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from packaging.version import Version

from repromatrix.runner.model.case import Case, Symptom, Trigger

_TRIGGERS = {
    Trigger.AUTOCAST: r"autocast|\b(bf16|fp16)=true\b|mixed[ -]precision",
    Trigger.TRAINER: r"\btrainer\b|trainingarguments|sfttrainer",
    Trigger.ADAPTER: r"\bpeft\b|\bq?lora\b|get_peft_model|\badapters?\b",
    Trigger.STATIC_CACHE: r"static[ _-]?cache|cache_implementation\W+static",
    Trigger.GENERATE: r"\.generate\(|\bgenerat(e|ion|ing)\b",
    Trigger.BACKWARD: r"backward\(|\bgradients?\b",
    Trigger.SAVE: r"save_pretrained|\bsav(e|ing) the model\b",
    Trigger.COMPILE: r"torch\.compile|torch\.export|\bdynamo\b",
    Trigger.DISTRIBUTED: r"\bfsdp2?\b|\bddp\b|deepspeed|tensor[ -]parallel",
    Trigger.LOAD: r"from_pretrained|torch_dtype|\bcheckpoint\b|low_cpu_mem",
    Trigger.CAST: r"\.half\(|\.bfloat16\(|\.to\((dtype=)?torch\.(float16|bfloat16)",
}
_SYMPTOMS = {
    Symptom.ERROR: r"traceback|^\s*\w*(error|exception): ",
    Symptom.NAN_OR_INF: r"\bnans?\b|\binf(inite|inity)?\b|overflow",
    Symptom.WRONG_DTYPE: r"wrong dtype|(remains?|stays?|still|loaded|comes back) in (fp|float|bf)",
    Symptom.NOT_TRAINED: r"no gradients?|does not (train|learn)|loss (is|stays) (0|constant)",
    Symptom.WRONG_NUMBERS: r"(wrong|incorrect|different) (output|result|logit|number|token)",
}
_RAISED = re.compile(r"^\s*(?:E\s+)?(?:[\w.]+\.)?(?P<name>\w+(?:Error|Exception)): (?P<says>.+)$")
_VERSION = re.compile(
    r"transformers\W{0,4}(?:version\W{0,4})?v?(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE
)
_WORDS = re.compile(r"[a-z][a-z0-9_]{2,}")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_Word = TypeVar("_Word", Trigger, Symptom)
_SHORT = 2
"""Names of so few letters are words of other things."""
_COMMON = 0.2
"""A word that stands in more than this share of the known cases tells nothing."""
_LONGEST_MATCH = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockProposal:
    """What a text suggests; empty where it suggests nothing."""

    title: str = ""
    area: str = ""
    models: tuple[str, ...] = ()
    trigger: tuple[Trigger, ...] = ()
    symptom: tuple[Symptom, ...] = ()
    raises: str = ""
    match: str = ""
    releases: tuple[str, ...] = ()
    """The ends of the line, and those around every version that the text names."""


def propose(
    text: str, cases: Iterable[Case], families: Collection[str], releases: Sequence[str]
) -> BlockProposal:
    """Return what the text of a report suggests.

    `families` are the names of architectures, `releases` those of the matrix from old to new.
    """
    lower = text.lower()
    raises, match = _raised(text)
    return BlockProposal(
        title=_title(text),
        area=_area(lower, {case.label: case for case in cases}),
        models=_named(families, lower),
        trigger=_found(_TRIGGERS, lower) or (Trigger.FORWARD,),
        symptom=_found(_SYMPTOMS, lower)[:1],
        raises=raises,
        match=match,
        releases=_around(text, releases),
    )


def _title(text: str) -> str:
    """Return the first line with words; a prefix such as `title:` and marks are taken off."""
    for line in text.splitlines():
        bare = re.sub(r"^\W*(title:)?\s*|\s*#\d+\s*$", "", line, flags=re.IGNORECASE).strip()
        if len(bare.split()) > 1:
            return bare
    return ""


def _found(table: Mapping[_Word, str], lower: str) -> tuple[_Word, ...]:
    return tuple(word for word, pattern in table.items() if re.search(pattern, lower, re.MULTILINE))


def _raised(text: str) -> tuple[str, str]:
    """Return class and message of the last exception in a text; numbers in it may differ."""
    found = [match for line in text.splitlines() if (match := _RAISED.match(line))]
    if not found:
        return "", ""
    return found[-1]["name"], found[-1]["says"].strip()[:_LONGEST_MATCH]


def _named(families: Collection[str], lower: str) -> tuple[str, ...]:
    """Return the families that a text names: `Gemma 3` is `gemma3`, and then not `gemma`.

    In code only the name of a class, of a module or of a checkpoint is one: `nn.Linear` is not.
    """
    prose = _CODE.sub(lambda code: " " * len(code[0]), lower)
    spans: dict[tuple[int, int], str] = {}
    for family in families:
        name = rf"(?P<name>{_spelt(family)})"
        in_prose = rf"(?<![a-z0-9])(?<!nn\.){name}(?![a-z0-9])"
        class_name = rf"(?<![a-z0-9]){name}(?=for[a-z]|model\b|config\b)"
        in_a_path = rf"(?:modeling_|models[./]|[a-z0-9]/){name}(?![a-z0-9])"
        for pattern, text in ((in_prose, prose), (class_name, lower), (in_a_path, lower)):
            if len(family) > _SHORT:
                spans |= {each.span("name"): family for each in re.finditer(pattern, text)}
    whole = {
        family
        for (start, end), family in spans.items()
        if not any(a <= start and end <= b and (a, b) != (start, end) for a, b in spans)
    }
    return tuple(sorted(whole))


def _spelt(family: str) -> str:
    return r"[\W_]?".join(re.findall(r"[a-z]+|\d+", family.lower()))


def _area(lower: str, cases: Mapping[str, Case]) -> str:
    """Return the area of the case that shares most of its rare words with a text."""
    words = {
        name: {*_WORDS.findall(f"{case.block.title} {case.script.code}".lower())}
        for name, case in cases.items()
    }
    mine = {*_WORDS.findall(lower)}
    rare = {
        word
        for word in mine
        if 0 < sum(word in each for each in words.values()) <= _COMMON * len(words)
    }
    shared = {name: len(rare & each) for name, each in words.items()}
    best = max(shared, key=shared.__getitem__, default="")
    return cases[best].block.area if best and shared[best] else ""


def _around(text: str, releases: Sequence[str]) -> tuple[str, ...]:
    """Return both ends, each named release (or the last before it) and those beside it."""
    wanted = {0, len(releases) - 1}
    for found in _VERSION.findall(text):
        until = [place for place, name in enumerate(releases) if Version(name) <= Version(found)]
        if until:
            wanted |= {until[-1] - 1, until[-1], until[-1] + 1}
    return tuple(releases[place] for place in sorted(wanted) if 0 <= place < len(releases))
