"""Lint a case: rules for its source and its block, and what its evidence lacks. Pure."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations

from packaging.utils import canonicalize_name
from packaging.version import Version

from repromatrix.runner.errors import Fault, InvalidValue, Problem
from repromatrix.runner.judging.ranges import fails
from repromatrix.runner.judging.verdicts import Judged, covers, described, meets
from repromatrix.runner.judging.workarounds import refuted, snippets
from repromatrix.runner.model.case import (
    EVERY,
    PLAIN,
    Block,
    Case,
    Failure,
    Isolation,
    Symptom,
    Trigger,
    by_variant,
    syntax_tree,
)
from repromatrix.runner.model.cell import Environment, belongs, cells_of
from repromatrix.runner.model.frames import frames
from repromatrix.runner.model.observation import UNPUBLISHED
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision
from repromatrix.runner.model.requirements import settled
from repromatrix.runner.text import join, plural


def lacking(judged: Iterable[Judged]) -> tuple[str, ...]:
    """Name what a case still lacks to be proven, by its judged cells; nothing when it is."""
    rows = [
        row
        for row in judged
        if row.seen.outcome.is_evidence
        and not row.seen.unstable
        and not row.stale
        and row.seen.exercised is not Exercised.NO
    ]
    expected = [row.seen.failed for row in rows if row.entry is not None and row.seen.failed]
    deepest = {
        frame.path
        for failed in expected
        if failed.error_class != "AssertionError"
        for frame in frames(failed.traceback)[-1:]
    }
    # An exception that the case itself raises, and that is no assert, is none of a library.
    own = sorted(path for path in deepest if path.startswith("cases/"))
    lacks = [f"its failure ends in {path}, not in a library" for path in own]
    if not any(row.entry is not None and described(row.entry, row.seen) for row in rows):
        lacks.append("no measured cell fails as described")
    if not any(row.seen.outcome is Outcome.PASSES for row in rows):
        lacks.append("no measured cell passes")
    return tuple(lacks)


def crosses(judged: Iterable[Judged], *, since: str = "0") -> bool:
    """Say whether one variant in one precision is seen both to pass and to fail as described.

    Only environments with that version of transformers or a later one are looked at: a case that
    crosses is proven across versions of a package, not only across precisions.
    """
    first = Version(since)
    said: dict[tuple[str, ...], set[bool]] = {}
    for one in judged:
        cell, row = one.seen.cell, one.seen
        version = row.provenance.packages.get("transformers", "")
        if not version or settled(version) < first or fails(row) is None or one.stale:
            continue
        bad = one.entry is not None and described(one.entry, row)
        if bad or not fails(row):  # a failure of another kind proves neither
            said.setdefault((cell.workaround, cell.precision, cell.device), set()).add(bad)
    return any(len(found) == 2 for found in said.values())  # noqa: PLR2004


def missing(case: Case, judged: Sequence[Judged], unmeasured: Collection[str]) -> Iterator[str]:
    """Yield what a sound case lacks, and the command that gives it; nothing where it lacks nothing.

    `judged` are its measured cells, `unmeasured` its thresholds without a margin over seeds.
    """
    name = case.stem
    current = [row for row in judged if not row.stale]
    if not current:
        yield f"It was not measured as it stands. Run `nox -s matrix -- --case {name}`."
        return
    unexpected = sum(row.verdict.is_unexpected for row in current)
    if unexpected:
        fix = f"Run `nox -s accept -- {name}` and review the difference."
        yield f"Unexpected: {unexpected} of {plural(len(current), 'result')}. {fix}"
    lacks = lacking(current)
    yield from (f"It is not proven: {lack}." for lack in lacks)
    if not lacks and not crosses(current):
        yield (
            "It is not proven across releases: no precision both fails as described and passes."
            " Try releases before the first that is measured, or name pairs in `environments`."
        )
    yield from _unsaid(case)
    for name in sorted(refuted(current)):
        yield f"The workaround {name} passes in no cell in which the plain case fails."
    if unmeasured:
        texts = join([*unmeasured])
        yield f"Not measured over several seeds: {texts}. Run `nox -s checks -- chance`."
    if any(row.seen.source in UNPUBLISHED for row in current):
        yield "Some results are not published. Run `nox -s publish`."


def _unsaid(case: Case) -> Iterator[str]:
    for number, entry in enumerate(case.block.fails, 1):
        if not entry.where:
            yield f"Entry {number} of `fails` does not say in which function it happens (`where`)."
        ends = any("<" in specifier.operator for text in entry.when for specifier in text.specifier)
        if ends and not entry.fixed_by:
            yield f"Entry {number} of `fails` does not say what fixed it (`fixed-by`)."
    claimed = {claim.report for claim in case.block.claims}
    if silent := [report for report in case.block.reports if report not in claimed]:
        yield f"No claim is recorded of {join(silent)}."


NAME = re.compile(r"^[a-z0-9]+(_[a-z0-9]+)+$")
_WORDS = "lower-case words joined by -"
_FAMILY = re.compile(r"^[a-z0-9]+([.-][a-z0-9]+)*$")
_WORD = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)*$")
_LINES = 60
_NEEDS = frozenset({"cuda"})
_VERSION_ATTRIBUTES = frozenset({"__version__", "version_info"})
_VERSION_MODULES = frozenset({"importlib.metadata", "importlib_metadata", "pkg_resources"})
_SETS_ENVIRONMENT = re.compile(r"environ\s*(\[|\.\s*(setdefault|update|pop)\s*\()|putenv\s*\(")
_CaseFault = InvalidValue | Problem
_SEED, _VARIANT = "REPRO_SEED", "REPRO_VARIANT"
_SEEDERS = frozenset({"manual_seed", "manual_seed_all", "set_seed"})
_VERSION_CALLS = frozenset({"is_torch_version", "is_transformers_version", "compare_versions"})


def scrutinise(
    case: Case,
    environments: Mapping[str, Environment],
    precisions: Sequence[Precision],
    devices: Iterable[Device],
) -> list[Fault]:
    """Return every fault of one case that its file alone, or the environments, can tell."""
    faults = [*_names(case), *_source(case), *_workarounds(case), *_claims(case)]
    faults += _packages(case, environments)
    for device in devices:
        found = _overlaps(case, environments, precisions, device)
        faults += [fault for fault in found if fault not in faults]
    return [dataclasses.replace(fault, where=f"{case.where}: {fault.where}") for fault in faults]


def undecided(case: Case, environments: Mapping[str, Environment]) -> list[Fault]:
    """Return what only a person can decide of the entries: their titles, the packages at fault."""
    faults = [*_at_fault(case, environments), *_titles(case)]
    return [dataclasses.replace(fault, where=f"{case.where}: {fault.where}") for fault in faults]


def _names(case: Case) -> Iterator[_CaseFault]:
    if not NAME.match(case.stem):
        expected = "<model or package>_<what>.py, lower-case words joined by _"
        yield InvalidValue("file name", case.stem, expected)
    yield from _subject(case)
    for name in case.block.workarounds:
        if not _WORD.match(name):
            yield InvalidValue(f"workarounds.{name}", name, _WORDS)
    for need in case.block.needs:
        if need not in _NEEDS:
            yield InvalidValue("needs", need, join(sorted(_NEEDS), "or"))
    for address in case.block.reports:
        if not address.startswith("https://"):
            yield InvalidValue("reports", address, "an https:// address")


def _subject(case: Case) -> Iterator[_CaseFault]:
    """Ask for what only a person can say."""
    block = case.block
    if not block.title.strip():
        fix = "Say what fails and on what, as in the title of an issue."
        yield Problem("title", "it is empty", fix)
    if not block.reports and block.found_by is None:
        fix = 'Name the address of a report, or set `found-by = "measurement"`.'
        yield Problem("reports", "the list is empty", fix)
    claimed = {claim.report for claim in block.claims}
    for address in sorted({*block.reports} & {entry.fixed_by for entry in block.fails} - claimed):
        fix = "Leave it to `fixed-by`, or record in `claims` what it says of the bug."
        yield Problem("reports", f"{address} mends the bug, and nothing it says is recorded", fix)
    if not _WORD.match(block.area):
        yield InvalidValue("area", block.area, _WORDS)
    if not block.models:
        yield Problem("models", "the list is empty", "Name at least one model family.")
    if block.is_about_any_model and not (block.shown_with and block.concerns):
        fix = "Name the model families that it builds, and say which models can meet the bug."
        yield Problem("shown-with, concerns", 'missing beside `models = "any"`', fix)
    if not block.is_about_any_model and (block.shown_with or block.concerns):
        yield Problem("shown-with, concerns", "the case names its models", "Remove them.")
    yield from _families(block)
    if not block.trigger:
        fix = f"Name what somebody does to be hit: {join([*Trigger], 'or')}."
        yield Problem("trigger", "the list is empty", fix)
    if not block.symptom:
        fix = f"Name what somebody sees who is hit: {join([*Symptom], 'or')}."
        yield Problem("symptom", "the list is empty", fix)


def _families(block: Block) -> Iterator[_CaseFault]:
    """Hold what is built, and what only shares the code, apart and well-formed."""
    for key, names in (("variants", block.variants), ("same-code", block.same_code)):
        for name in names:
            if not _FAMILY.match(name):
                yield InvalidValue(key, name, "lower-case words joined by - or .")
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Problem(key, f"{name!r} is named twice", "Remove one.")
    for name in sorted({*block.same_code} & {*block.families, *block.variants}):
        what = f"{name!r} is among those that the case builds"
        yield Problem("same-code", what, "Name it here only if it was not run.")


def _source(case: Case) -> Iterator[_CaseFault]:
    try:
        tree = syntax_tree(case.script.code)
    except SyntaxError as error:
        yield Problem(_line(case, error.lineno or 1), f"invalid Python: {error.msg}")
        return
    if not ast.get_docstring(tree):
        fix = "Write one sentence that says what must hold, then why."
        yield Problem("docstring", "there is none", fix)
    lines = sum(1 for line in case.script.code.splitlines() if line.strip())
    if lines >= _LINES:
        fix = f"A case has fewer than {_LINES}, blank ones not counted."
        yield Problem("length", f"{lines} lines of code", fix)
    nodes = [*ast.walk(tree)]
    for node in nodes:
        if name := _version_source(node):
            line = _line(case, getattr(node, "lineno", 1))
            fix = "Test behaviour: `fails` says which versions are affected."
            yield Problem(line, f"the case reads a version ({name})", fix)
    yield from _surroundings(case, nodes)
    yield from _messages_raised(case, tree)
    yield from _late_settings(case, tree)
    yield from snippets(case)


def _line(case: Case, number: int) -> str:
    """Name a line of the code by its number in the file: the code begins where the block ends."""
    above = case.script.first_line - 2 + case.script.block.count("\n")
    return f"line {above + number}"


def _surroundings(case: Case, nodes: Sequence[ast.AST]) -> Iterator[_CaseFault]:
    """Hold a case to the environment variables that a runner sets: those of seed and variant."""
    read = {name: default for node in nodes for name, default in _environment_read(node)}
    fix = 'Write torch.manual_seed(int(os.environ.get("REPRO_SEED", "0"))).'
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _SEEDERS:
                asked = chain.from_iterable(map(_environment_read, ast.walk(node)))
                if _SEED not in dict(asked):
                    yield Problem(_line(case, node.lineno), "the seed cannot be chosen", fix)
            case _:
                pass
    if _SEED in read and not read[_SEED].isdecimal():
        yield InvalidValue(f"the default of {_SEED}", read[_SEED], "a number in quotes", fix)
    variants = case.block.variants
    if variants and _VARIANT not in read:
        what, fix = f"the case does not read {_VARIANT}", "Build the variant that it names."
        yield Problem("variants", what, fix)
    elif variants and read[_VARIANT] not in variants:
        yield InvalidValue(f"the default of {_VARIANT}", read[_VARIANT], join(variants, "or"))
    elif _VARIANT in read and not variants:
        what = f"missing, and the case reads {_VARIANT}"
        yield Problem("variants", what, "Name the values that it takes.")


def _environment_read(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the variable that a call asks the environment for, and its default."""
    match node:
        case ast.Call(
            func=ast.Attribute(attr="get" | "getenv"), args=[ast.Constant(value=str(name)), *rest]
        ) if name.startswith("REPRO_"):
            match rest:
                case [ast.Constant(value=default)]:
                    yield name, str(default)
                case _:
                    yield name, ""
        case ast.Subscript(slice=ast.Constant(value=str(name))) if name.startswith("REPRO_"):
            yield name, ""
        case _:
            pass


def _version_source(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(value=str(name)) if (
            name in _VERSION_ATTRIBUTES
        ):
            return name
        case ast.Name(id=name) if name in _VERSION_CALLS:
            return name
        case ast.ImportFrom(module=str(name)) if name in _VERSION_MODULES:
            return name
        case ast.ImportFrom(module=module, names=names):
            read = _VERSION_ATTRIBUTES | ({"metadata"} if module == "importlib" else set())
            return next((alias.name for alias in names if alias.name in read), "")
        case ast.Import(names=names):
            return next((alias.name for alias in names if alias.name in _VERSION_MODULES), "")
        case _:
            return ""


def _messages_raised(case: Case, tree: ast.Module) -> Iterator[_CaseFault]:
    """Refuse the words that are matched where the case raises them in place of a library.

    `main` may assert on what was measured. Any other function may be called by the library, as a
    stand-in is, and an assert there would pass for a failure of the library's own.
    """
    texts = [text for entry in case.block.fails for text in entry.match]
    for node in _raising(tree, asserts=False):
        said = node.msg if isinstance(node, ast.Assert) else node
        parts = ast.walk(said) if said else ()
        constants = (part.value for part in parts if isinstance(part, ast.Constant))
        raised = " ".join(value for value in constants if isinstance(value, str))
        hit = next((text for text in texts if text in raised), None)
        if hit is not None:
            fix = "Let the library raise, or assert in main something that was measured."
            what = f"the case itself raises the message {hit!r}"
            yield Problem(_line(case, node.lineno), what, fix)


def _raising(node: ast.AST, *, asserts: bool) -> Iterator[ast.Raise | ast.Assert]:
    """Yield each raise, and each assert that stands in a function other than `main`."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Raise():
                yield child
            case ast.Assert() if asserts:
                yield child
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                outermost = isinstance(node, ast.Module)
                yield from _raising(child, asserts=not (outermost and name == "main"))
            case _:
                yield from _raising(child, asserts=asserts)


def _late_settings(case: Case, tree: ast.Module) -> Iterator[_CaseFault]:
    """Refuse a case that sets environment variables before its imports and shares a process."""
    if case.block.isolation is Isolation.PROCESS:
        return
    if not _SETS_ENVIRONMENT.search(case.script.code):
        return  # most: to write a tree as text again takes long
    libraries = {canonicalize_name(item.name) for item in case.head.dependencies}
    set_at = 0
    for node in tree.body:
        defines = isinstance(node, (ast.FunctionDef, ast.ClassDef))
        if _SETS_ENVIRONMENT.search(ast.unparse(node)) and not defines:
            set_at = node.lineno
        elif set_at and not libraries.isdisjoint(map(canonicalize_name, _imported(node))):
            what = "the case sets environment variables before its imports"
            fix = 'Set `isolation = "process"`.'
            yield Problem(_line(case, node.lineno), what, fix)
            return


def _imported(node: ast.stmt) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name.partition(".")[0] for alias in names]
        case ast.ImportFrom(module=str(module)):
            return [module.partition(".")[0]]
        case _:
            return []


def _workarounds(case: Case) -> Iterator[_CaseFault]:
    known = {PLAIN, EVERY, *case.block.workarounds}
    for name in case.block.snippets.keys() - known:
        yield _unknown_workaround(case, f"snippets.{name}", name)
    for number, entry in enumerate(case.block.fails):
        for name in entry.workarounds:
            if name not in known:
                yield _unknown_workaround(case, f"fails[{number}].workarounds", name)
        for name in entry.variants:
            if name not in case.block.variants:
                allowed = join(case.block.variants, "or") or "none: the case has no variants"
                yield InvalidValue(f"fails[{number}].variants", name, allowed)


def _unknown_workaround(case: Case, key: str, name: str) -> _CaseFault:
    names = sorted(case.block.workarounds)
    if not names:
        fix = "Name it in `workarounds` first."
        return Problem(key, f"{name!r}, but the case has no workarounds", fix)
    return InvalidValue(key, name, join(names, "or"))


def _claims(case: Case) -> Iterator[_CaseFault]:
    for number, claim in enumerate(case.block.claims):
        if claim.workaround not in {PLAIN, *case.block.workarounds}:
            yield _unknown_workaround(case, f"claims[{number}].workaround", claim.workaround)
        if not claim.report.startswith("https://"):
            yield InvalidValue(f"claims[{number}].report", claim.report, "an https:// address")


def _titles(case: Case) -> Iterator[_CaseFault]:
    """Ask for a title where an entry has neither the words nor the place of the case's bug."""
    same: list[Failure] = []
    for number, entry in enumerate(case.block.fails):
        if entry.title:
            continue
        words, places = {*entry.match}, {*entry.where}
        if not same or any(words & {*one.match} or places & {*one.where} for one in same):
            same.append(entry)
        else:
            fix = "Give the entry a `title`; where it is the same bug, the title of the case."
            yield Problem(f"fails[{number}]", "neither its words nor its place are another's", fix)


def _at_fault(case: Case, environments: Mapping[str, Environment]) -> Iterator[_CaseFault]:
    """Ask for a decision where an entry does not say, or not unanimously, which package fails."""
    installed = {name for environment in environments.values() for name in environment.pins}
    for number, entry in enumerate(case.block.fails):
        key = f"fails[{number}].at-fault"
        if entry.at_fault and entry.package not in installed:
            yield Problem(key, f"no environment has the package {entry.at_fault!r}", "")
        elif not entry.package:
            yield Problem(key, "nothing says which package has the fault", "Name the package.")
        elif not entry.at_fault:
            modules = {place.partition(":")[0].partition(".")[0] for place in entry.where}
            others = {canonicalize_name(name) for name in modules} & installed - {entry.package}
            for other in sorted(others):
                what = f"`when` names {entry.package}, and the error comes from {other}"
                yield Problem(key, what, "Name the package that has the fault.")


def _packages(case: Case, environments: Mapping[str, Environment]) -> Iterator[_CaseFault]:
    installed = {name for environment in environments.values() for name in environment.pins}
    conditions = [
        *((f"fails[{at}].when", entry.when) for at, entry in enumerate(case.block.fails)),
        *((f"claims[{at}].when", claim.when) for at, claim in enumerate(case.block.claims)),
    ]
    for key, when in conditions:
        for requirement in when:
            if canonicalize_name(requirement.name) not in installed:
                what = f"no environment has the package {requirement.name!r}"
                yield Problem(key, what, "")


def _overlaps(
    case: Case,
    environments: Mapping[str, Environment],
    precisions: Sequence[Precision],
    device: Device,
) -> Iterator[_CaseFault]:
    """Decide over the real cells, not by interval arithmetic, that no two entries hold in one."""
    reported: set[tuple[int, int]] = set()
    if len(case.block.fails) < 2:  # noqa: PLR2004
        return
    for name, environment in environments.items():
        if not belongs(case, environment):
            continue
        entries = enumerate(case.block.fails)
        held = [(number, entry) for number, entry in entries if meets(environment, entry.when)]
        if len(held) < 2:  # noqa: PLR2004
            continue
        cells = (cells_of(each, name, precisions, device) for each in by_variant(case))
        for cell in chain.from_iterable(cells):
            numbers = [number for number, entry in held if covers(entry, cell)]
            for first, second in combinations(numbers, 2):
                if (first, second) not in reported:
                    reported.add((first, second))
                    how = f" with {cell.workaround}" if cell.workaround else ""
                    how += f" of {cell.case}" if "[" in cell.case else ""
                    what = f"both apply to {cell.precision} on {cell.environment}{how}"
                    fix = "At most one entry may apply to a cell."
                    yield Problem(f"fails[{first}] and fails[{second}]", what, fix)
