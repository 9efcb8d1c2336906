"""A case: one script that reproduces one reported bug, with what is expected of it and where.

It says so in its inline metadata (PEP 723).
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain
from pathlib import PurePath
from typing import Annotated, Any, Literal, NamedTuple

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from pydantic import BeforeValidator, Field, field_validator, model_validator

from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.model import requirements
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.frames import is_place, same_place
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.runner.model.toml import RequirementText, TomlRecord, read, read_table
from repromatrix.runner.text import join

PLAIN = ""
"""The name that stands for the case without any workaround."""

EVERY = "*"
"""In `fails[].workarounds`: the plain case and every workaround."""

# The expression of the specification, https://packaging.python.org/specifications/inline-script-metadata/
_BLOCK = re.compile(
    r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$",
)
_PARSING = threading.Lock()
_FIX = "A case has exactly one block between `# /// script` and `# ///`."
_TABLE = "tool.repromatrix"
_HALF_OPEN = frozenset({">=", "<", "=="})


class CaseKind(StrEnum):
    """Why the behaviour is as it is."""

    BUG = "bug"
    CHANGE = "change"
    POLICY = "policy"


class Isolation(StrEnum):
    """How much a case shares with the process that prepared its imports."""

    FORK = "fork"
    PROCESS = "process"


class Exercise(StrEnum):
    """What the precision witness must see before a pass proves anything."""

    COMPUTE = "compute"
    LOAD = "load"


class Trigger(StrEnum):
    """What somebody does to be hit; a case that names several needs one of them."""

    LOAD = "load"
    CAST = "cast"
    AUTOCAST = "autocast"
    TRAINER = "trainer"
    ADAPTER = "adapter"
    STATIC_CACHE = "static-cache"
    GENERATE = "generate"
    FORWARD = "forward"
    BACKWARD = "backward"
    SAVE = "save"
    COMPILE = "compile"
    DISTRIBUTED = "distributed"


class Symptom(StrEnum):
    """What somebody sees who is hit."""

    ERROR = "error"
    WRONG_NUMBERS = "wrong-numbers"
    NAN_OR_INF = "nan-or-inf"
    WRONG_DTYPE = "wrong-dtype"
    NOT_TRAINED = "not-trained"
    REFUSED = "refused"

    @property
    def is_silent(self) -> bool:
        """Whether nothing is raised: the case's own assertion is all that tells."""
        return self not in {Symptom.ERROR, Symptom.REFUSED}

    @property
    def has_impact(self) -> bool:
        """Whether what it costs can be measured: numbers, or training, are not as they should."""
        return self in {Symptom.WRONG_NUMBERS, Symptom.NAN_OR_INF, Symptom.NOT_TRAINED}


ANY_MODEL = "any"
"""In `models`: the case is about a mechanism, whatever the model."""


class Workaround(TomlRecord):
    """A named alternative path inside a case that is claimed to avoid the bug."""

    says: str
    skips: bool = False


WorkaroundText = Annotated[
    Workaround, BeforeValidator(lambda value: {"says": value} if isinstance(value, str) else value)
]
TextOrTexts = Annotated[
    tuple[str, ...], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
]


class Claim(TomlRecord):
    """What a report says; checked against evidence, never counted as an expectation."""

    report: str
    says: str
    when: tuple[RequirementText, ...] = ()
    precisions: tuple[Precision, ...] = ()
    workaround: str = PLAIN
    outcome: Outcome | None = None


class Failure(TomlRecord):
    """A deviation from passing: where the case is expected to fail, and how."""

    title: str | None = None
    """What fails, where it is another bug than the one that the case's title names."""
    at_fault: str | None = None
    """The package with the fault, where `when` does not name it alone."""
    when: tuple[RequirementText, ...] = ()
    precisions: tuple[Precision, ...] = tuple(Precision)
    devices: tuple[Device, ...] = tuple(Device)
    workarounds: tuple[str, ...] = (PLAIN,)
    variants: tuple[str, ...] = ()
    """Those of the case in which it fails; empty: all."""
    outcome: Outcome = Outcome.FAILS
    raises: TextOrTexts = ()
    """The names of the class, any of them: another torch may raise another."""
    match: TextOrTexts = ()
    where: TextOrTexts = ()
    """The places, any of them, in which it happens; empty: in any."""
    fixed_by: str | None = None
    note: str | None = None
    trigger: tuple[Trigger, ...] = ()
    """Empty: that of the case; so is `symptom`."""
    symptom: tuple[Symptom, ...] = ()

    @property
    def package(self) -> str:
        """The canonical name of the package at fault; empty where nothing says which it is.

        Without `at-fault` it is the one that `when` names: torch only if no other is named.
        """
        if self.at_fault:
            return canonicalize_name(self.at_fault)
        named = {canonicalize_name(requirement.name) for requirement in self.when}
        named = named - {"torch"} or named
        return named.pop() if len(named) == 1 else ""

    @field_validator("when")
    @classmethod
    def _half_open(cls, when: tuple[RequirementText, ...]) -> tuple[RequirementText, ...]:
        for requirement in when:
            for specifier in requirement.specifier:
                if specifier.operator not in _HALF_OPEN:
                    msg = f"`when` takes ranges of >= and <, or ==; not {specifier.operator}"
                    raise ValueError(msg)
        return when

    @field_validator("outcome")
    @classmethod
    def _failing(cls, outcome: Outcome) -> Outcome:
        if not outcome.is_failure:
            names = join([repr(str(other)) for other in Outcome if other.is_failure], "or")
            msg = f"an entry of `fails` expects {names}"
            raise ValueError(msg)
        return outcome

    @field_validator("where")
    @classmethod
    def _places(cls, where: tuple[str, ...]) -> tuple[str, ...]:
        for place in where:
            if not is_place(place):
                msg = f"a place is written package.module:Class.function; not {place!r}"
                raise ValueError(msg)
        return where

    @model_validator(mode="after")
    def _described(self) -> Failure:
        if self.outcome is Outcome.FAILS and not (self.raises and self.match):
            msg = "an entry that fails needs `raises` and `match`"
            raise ValueError(msg)
        if "" in self.match:
            msg = "an empty `match` is in every message"
            raise ValueError(msg)
        if self.where and self.outcome is not Outcome.FAILS:
            msg = f"`where` is for an exception; what {self.outcome.verb} leaves no traceback"
            raise ValueError(msg)
        return self

    def has_words(self, error_class: str, message: str) -> bool:
        """Say whether an exception has the described words: exact class name, plain substring."""
        return error_class in self.raises and any(text in message for text in self.match)

    def is_at(self, place: str) -> bool:
        """Say whether an exception of a place is where this entry has its own.

        It is where the entry names no place, and where none is known of the exception, as of
        evidence without a traceback: then words alone decide.
        """
        known = self.where and place
        return not known or any(same_place(place, stated) for stated in self.where)


class Block(TomlRecord):
    """The table `[tool.repromatrix]`."""

    title: str
    area: str
    models: TextOrTexts
    """The families that it builds, or `any`."""
    shown_with: tuple[str, ...] = ()
    """The families that it builds where it is about any."""
    concerns: str | None = None
    """Which models can meet it, in a sentence, where it is about any."""
    same_code: TextOrTexts = ()
    """The families that share the code and were not run."""
    variants: tuple[str, ...] = ()
    """What it builds, one at a time: each is run as a case of its own."""
    trigger: tuple[Trigger, ...] = ()
    symptom: tuple[Symptom, ...] = ()
    reports: tuple[str, ...]
    found_by: Literal["measurement", "sweep"] | None = None
    kind: CaseKind = CaseKind.BUG
    needs: tuple[str, ...] = ()
    isolation: Isolation = Isolation.FORK
    exercises: Exercise = Exercise.COMPUTE
    simulates: str | None = None
    environments: tuple[str, ...] = ()
    timeout: float | None = Field(default=None, gt=0)
    processes: int = Field(default=1, ge=1, le=4)
    """How many it computes in at once, where it says more than one; the first is its own."""
    workarounds: dict[str, WorkaroundText] = Field(default_factory=dict)
    snippets: dict[str, str] = Field(default_factory=dict)
    """By workaround, the code to paste: what the script does for it, in a user's names."""
    claims: tuple[Claim, ...] = ()
    fails: tuple[Failure, ...] = ()

    @property
    def is_about_any_model(self) -> bool:
        """Whether it is part of every answer about a model."""
        return self.models == (ANY_MODEL,)

    @property
    def families(self) -> tuple[str, ...]:
        """The families of models that it builds."""
        return self.shown_with if self.is_about_any_model else self.models

    @property
    def answers_for(self) -> tuple[str, ...]:
        """The families of models about which it says something, be it by shared code."""
        return (*self.families, *self.same_code)

    def is_about(self, models: Collection[str]) -> bool:
        """Whether it belongs to an answer about some families of models."""
        return (
            self.is_about_any_model
            or not set(self.models).isdisjoint(models)
            or self.is_by_shared_code(models)
        )

    def is_by_shared_code(self, models: Collection[str]) -> bool:
        """Whether none of some families was run, and one of them shares the code."""
        return set(self.families).isdisjoint(models) and not set(self.same_code).isdisjoint(models)

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """What leads to it anywhere: its own triggers, and those of its entries."""
        return tuple(dict.fromkeys(chain(self.trigger, *(entry.trigger for entry in self.fails))))

    @property
    def symptoms(self) -> tuple[Symptom, ...]:
        """What is seen of it anywhere: its own symptoms, and those of its entries."""
        return tuple(dict.fromkeys(chain(self.symptom, *(entry.symptom for entry in self.fails))))

    @property
    def is_silent(self) -> bool:
        """Whether whoever is hit sees no error, wherever it fails."""
        return bool(self.symptoms) and all(symptom.is_silent for symptom in self.symptoms)

    @field_validator("environments")
    @classmethod
    def _pairs(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            parts = taken_apart(name)
            if not (parts.changed and parts.base[:1].isdigit()):
                msg = f"an environment is written RELEASE+packageVERSION; not {name}"
                raise ValueError(msg)
        return names


class CaseHead(TomlRecord):
    """What PEP 723 defines, and our table."""

    requires_python: str = ">=3.10"
    dependencies: tuple[RequirementText, ...] = ()
    tool: dict[str, Any] = Field(default_factory=dict)

    @field_validator("requires_python")
    @classmethod
    def _specifier(cls, text: str) -> str:
        try:
            SpecifierSet(requirements.without_long_numbers(text))
        except InvalidSpecifier as error:
            msg = "a range of versions looks like >=3.10"
            raise ValueError(msg) from error
        return text

    @field_validator("dependencies")
    @classmethod
    def _no_addresses(cls, asked: tuple[RequirementText, ...]) -> tuple[RequirementText, ...]:
        for requirement in asked:
            if requirement.url:
                msg = "an address cannot be compared with an environment; write a name and versions"
                raise ValueError(msg)
        return asked


class Demands(NamedTuple):
    """What a case needs to be installed, as text: what decides where it applies."""

    python: str
    dependencies: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """A script taken apart."""

    table: dict[str, Any]
    block: str
    code: str
    first_line: int
    text: str = field(default="", repr=False, compare=False)
    """All of it, as it was read: what is run, whatever becomes of the file meanwhile."""


# A pattern, not a syntax tree: commands that run nothing read the digests of all cases.
_DOCSTRING = re.compile(
    r"""\A((?:[ \t]*(?:\#[^\n]*)?\n)*)  # blank lines and comments
        [rR]?("{3}|'{3}) (?:\\.|(?!\2).)* \2 [ \t]*(?:\n|\Z)""",
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One script in `cases/`, read."""

    name: str
    where: str
    """Its path as a reader of the checkout writes it."""
    head: CaseHead
    block: Block
    script: Script
    path: str = ""
    """The file that is run."""
    extras: tuple[str, ...] = ()
    """Those of its dependencies that are laid on top of every release for it."""
    bare: bool = False
    """Whether it is a script that says nothing of itself, not even what it exercises."""
    variant: str = ""
    """Which of its variants it is; empty where it has none."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """What the runner tells a script of its own by environment variables; of a case nothing."""
    beside: str = ""
    """The folder from which a script of the runner's own imports modules; a case has none."""

    @property
    def label(self) -> str:
        """Its path, with the variant where it is one."""
        return f"{self.where}[{self.variant}]" if self.variant else self.where

    @property
    def stem(self) -> str:
        """Its name without that of the variant: what all variants of one file share."""
        return stem_of(self.name)

    def title_of(self, entry: Failure | None) -> str:
        """Return the title of the bug that an entry of `fails` describes."""
        if entry is None or not entry.title:
            return self.block.title
        return f"{entry.title} [{self.variant}]" if self.variant else entry.title

    @cached_property
    def docstring(self) -> str:
        """The sentence of what must hold, and why it did not."""
        return ast.get_docstring(syntax_tree(self.script.code)) or ""

    @cached_property
    def demands(self) -> Demands:
        """What must be installed where it applies."""
        return Demands(self.head.requires_python, tuple(map(str, self.head.dependencies)))

    @cached_property
    def packages(self) -> frozenset[str]:
        """The canonical names of what it depends on."""
        return frozenset(canonicalize_name(item.name) for item in self.head.dependencies)

    @cached_property
    def branches(self) -> tuple[str, ...]:
        """The plain case and its workarounds, in the order of the file."""
        return (PLAIN, *self.block.workarounds)

    @cached_property
    def digest(self) -> str:
        """Identity of everything that changes what is run, 16 hexadecimal digits.

        The docstring is no part of it: a case that is only described better is not run again.
        """
        runs: dict[str, object] = {
            "code": _DOCSTRING.sub(r"\1", self.script.code, count=1),
            "dependencies": sorted(map(str, self.head.dependencies)),
            "environments": sorted(self.block.environments),
            "isolation": self.block.isolation,
            "needs": sorted(self.block.needs),
            "requires-python": self.head.requires_python,
            "timeout": self.block.timeout,
            "workarounds": sorted(self.block.workarounds),
        }
        if self.variant:
            runs["variant"] = self.variant
        if self.environ:
            runs["environ"] = dict(self.environ)
        if self.block.exercises is not Exercise.COMPUTE:
            runs["exercises"] = self.block.exercises  # it decides what the witness asks for
        if self.block.processes > 1:
            runs["processes"] = self.block.processes
        return hashlib.sha256(json.dumps(runs, sort_keys=True).encode()).hexdigest()[:16]


def read_case(text: str, where: str, path: str = "", extras: Collection[str] = ()) -> Case:
    """Read one case; raises RunnerError with every fault of its block.

    `extras` are the packages that may be laid on top of a release.
    """
    script = parse_script(text, where)
    head = read(CaseHead, script.table, where=where, prefix="script")
    if "repromatrix" not in head.tool:
        raise refuse(Problem(where, f"the script block has no table [{_TABLE}]"))
    block = read(Block, head.tool["repromatrix"], where=where, prefix=_TABLE)
    needed = {canonicalize_name(requirement.name) for requirement in head.dependencies}
    return Case(
        name=PurePath(where).stem,
        where=where,
        head=head,
        block=block,
        script=script,
        path=path,
        extras=tuple(sorted(needed & set(extras))),
    )


def by_variant(case: Case) -> tuple[Case, ...]:
    """Return a case for each variant of a script, named `case[variant]`; without any, itself.

    A variant that is named like a family of models builds that family alone.
    """
    block = case.block
    cases = []
    for name in block.variants:
        changed: dict[str, Any] = {"title": f"{block.title} [{name}]"}
        for key, families in (("models", block.models), ("shown_with", block.shown_with)):
            changed |= {key: (name,)} if name in families else {}
        alone = block.model_copy(update=changed)
        cases.append(replace(case, name=f"{case.stem}[{name}]", block=alone, variant=name))
    return tuple(cases) or (case,)


def stem_of(name: str) -> str:
    """Return the name of a case without that of its variant."""
    return name.partition("[")[0]


def variant_of(name: str) -> str:
    """Return the variant that the name of a case ends with; empty where there is none."""
    return name.partition("[")[2].removesuffix("]")


def read_script(text: str, where: str, path: str, extras: Collection[str] = ()) -> Case:
    """Read any script: without a table of ours, or without a block, it is asked all the same.

    Raises RunnerError with every fault of the block that it has.
    """
    nothing = Script(table={}, block="", code=text, first_line=1, text=text)
    has_block = any(match["type"] == "script" for match in _BLOCK.finditer(text))
    script = parse_script(text, where) if has_block else nothing
    if "repromatrix" in script.table.get("tool", {}):
        return read_case(text, where, path, extras)
    return Case(
        name=PurePath(where).stem,
        where=where,
        head=read(CaseHead, script.table, where=where, prefix="script"),
        block=Block(title=PurePath(where).stem, area="", models=(), reports=()),
        script=script,
        path=path,
        bare=True,
    )


def decode(content: bytes, where: str) -> str:
    """Return the text of a file; raises RunnerError when it is not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        at = f"byte {content[error.start]:#04x} at offset {error.start}"
        raise refuse(Problem(where, f"not UTF-8 text ({at})", "Save it as UTF-8.")) from error


def syntax_tree(code: str) -> ast.Module:
    """Parse Python; raises what `ast.parse` does.

    One thread at a time: CPython counts the depth of a tree per interpreter, and where two threads
    build one each, both end in a SystemError now and then (seen on 3.11.7).
    """
    with _PARSING:
        return ast.parse(code)


def parse_python(text: str, where: str) -> ast.Module:
    """Parse a file as Python; raises RunnerError with the line."""
    try:
        return syntax_tree(text)
    except SyntaxError as error:
        at = f"{where}: line {error.lineno}"
        raise refuse(Problem(at, f"invalid Python: {error.msg}")) from error
    except (ValueError, MemoryError, RecursionError) as error:
        why = str(error) or "an expression is nested too deep"
        raise refuse(Problem(where, f"invalid Python: {why}")) from error


def parse_script(text: str, where: str) -> Script:
    """Take a script apart; raises RunnerError when there is not exactly one readable block."""
    matches = [match for match in _BLOCK.finditer(text) if match["type"] == "script"]
    if len(matches) != 1:
        what = f"{len(matches)} script blocks" if matches else "no script block"
        if not matches and "\r" in text:
            what += " that can be read: the lines end in \\r"
        raise refuse(Problem(where, what, _FIX))
    match = matches[0]
    content = "".join(
        line[2:] if line.startswith("# ") else line[1:]
        for line in match["content"].splitlines(keepends=True)
    )
    code = text[match.end() :]
    first_line = text.count("\n", 0, match.start("content")) + 1
    table = read_table(content, f"{where}: script block")
    return Script(table=table, block=match.group(0), code=code, first_line=first_line, text=text)
