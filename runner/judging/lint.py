"""Lint a case: rules for its source and its block, and whether it is proven by evidence. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from repromatrix.runner.errors import Fault, OldFault
from repromatrix.runner.judging.expectations import covers, described, live
from repromatrix.runner.judging.ranges import fails
from repromatrix.runner.judging.verdicts import Judged
from repromatrix.runner.model import script
from repromatrix.runner.model.case import EVERY, PLAIN, Case, Failure, Isolation
from repromatrix.runner.model.cell import Cell, Environment, belongs, cells_of
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision
from repromatrix.runner.model.requirements import settled

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_FRAME = re.compile(r'(?m)^  File "([^"]+)", line')


def lacking(judged: Iterable[Judged]) -> tuple[str, ...]:
    """Name what a case still lacks to be proven, by its judged cells; nothing when it is."""
    rows = [
        one
        for one in judged
        if one.seen.outcome.is_evidence
        and not one.seen.unstable
        and not one.stale
        and one.seen.exercised is not Exercised.NO
    ]
    lacks = [f"its failure ends in {frame}" for frame in sorted(set(_own_frames(rows)))]
    if not any(one.entry is not None and described(one.entry, one.seen) for one in rows):
        lacks.append("no measured cell fails as described")
    if not any(one.seen.outcome is Outcome.PASSES for one in rows):
        lacks.append("no measured cell passes")
    return tuple(lacks)


def _own_frames(rows: Iterable[Judged]) -> Iterator[str]:
    """Yield where an expected exception is raised by the case itself, and is no assert."""
    for one in rows:
        failed = one.seen.failed
        if one.entry is None or failed is None or failed.error_class == "AssertionError":
            continue
        frames = _FRAME.findall(failed.traceback)
        if frames and frames[-1].startswith("cases/"):
            yield f"{frames[-1]}, not in a library"


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


NAME = re.compile(r"^[a-z0-9]+(_[a-z0-9]+)+$")
_WORD = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)*$")
_LINES = 60
_NEEDS = frozenset({"cuda"})
_VERSION_ATTRIBUTES = frozenset({"__version__", "version_info"})
_VERSION_MODULES = frozenset({"importlib.metadata", "importlib_metadata", "pkg_resources"})
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
    return faults


def _fault(case: Case, key: str, found: str, allowed: str, remedy: str = "") -> Fault:
    where = case.where
    return OldFault(where=where, key=key, found=found, allowed=allowed, fix=remedy)


def _names(case: Case) -> Iterator[Fault]:
    if not NAME.match(case.name):
        allowed = "<model or package>_<what>.py, words in lower case joined by _"
        yield _fault(case, "file name", repr(case.name), allowed)
    yield from _subject(case)
    for name in case.block.workarounds:
        if not _WORD.match(name):
            allowed = "lower-case words joined by -"
            yield _fault(case, f"workarounds.{name}", repr(name), allowed)
    for need in case.block.needs:
        if need not in _NEEDS:
            yield _fault(case, "needs", repr(need), ", ".join(sorted(_NEEDS)))
    for address in case.block.reports:
        if not address.startswith("https://"):
            yield _fault(case, "reports", repr(address), "https:// addresses")


def _subject(case: Case) -> Iterator[Fault]:
    """Ask for what only a person can say."""
    block = case.block
    if not block.title.strip():
        yield _fault(case, "title", "nothing", "what fails, and on what, as the title of an issue")
    if not block.reports and block.found_by is None:
        allowed = 'the address of a report, or `found-by = "measurement"`'
        yield _fault(case, "reports", "an empty list", allowed)
    if not _WORD.match(block.area):
        yield _fault(case, "area", repr(block.area), "lower-case words joined by -")
    if not block.models:
        yield _fault(case, "models", "an empty list", "at least one model family")


def _source(case: Case) -> Iterator[Fault]:
    try:
        tree = script.tree(case.script.code)
    except SyntaxError as error:
        key = _line(case, error.lineno or 1)
        yield _fault(case, key, str(error.msg), "Python that can be parsed")
        return
    if not ast.get_docstring(tree):
        yield _fault(case, "docstring", "none", "one sentence that says what must hold, then why")
    lines = sum(1 for line in case.script.code.splitlines() if line.strip())
    if lines >= _LINES:
        yield _fault(
            case, "length", f"{lines} lines of code", f"fewer than {_LINES}, blank ones not counted"
        )
    yield from _versions_read(case, tree)
    yield from _messages_raised(case, tree)
    yield from _late_settings(case, tree)


def _line(case: Case, number: int) -> str:
    """Name a line of the code by its number in the file: the code begins where the block ends."""
    above = case.script.first_line - 2 + case.script.block.count("\n")
    return f"line {above + number}"


def _versions_read(case: Case, tree: ast.Module) -> Iterator[Fault]:
    for node in ast.walk(tree):
        found = _version_source(node)
        if found:
            allowed = "behaviour, not versions: expectations say which versions, the case does not"
            yield _fault(
                case,
                _line(case, getattr(node, "lineno", 1)),
                f"it reads a version ({found})",
                allowed,
            )


def _version_source(node: ast.AST) -> str:  # noqa: PLR0911 - one return per way to read one
    match node:
        case ast.Attribute(attr=name) if name in _VERSION_ATTRIBUTES:
            return name
        case ast.Name(id=name) if name in _VERSION_CALLS | _VERSION_ATTRIBUTES:
            return name
        case ast.Constant(value=str(text)) if text in _VERSION_ATTRIBUTES:
            return text
        case ast.ImportFrom(module=str(name)) if name in _VERSION_MODULES:
            return name
        case ast.ImportFrom(names=names) if any(
            alias.name in _VERSION_ATTRIBUTES for alias in names
        ):
            return next(alias.name for alias in names if alias.name in _VERSION_ATTRIBUTES)
        case ast.ImportFrom(module="importlib", names=names):
            return next((alias.name for alias in names if alias.name == "metadata"), "")
        case ast.Import(names=names):
            return next((alias.name for alias in names if alias.name in _VERSION_MODULES), "")
        case _:
            return ""


def _messages_raised(case: Case, tree: ast.Module) -> Iterator[Fault]:
    texts = [text for entry in case.block.fails for text in entry.match]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Raise):
            continue
        said = " ".join(_strings(node))
        hit = next((text for text in texts if text in said), None)
        if hit is not None:
            allowed = "an exception of the library, or an assert on something measured"
            yield _fault(
                case, _line(case, node.lineno), f"it raises the message {hit!r} itself", allowed
            )


def _strings(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _late_settings(case: Case, tree: ast.Module) -> Iterator[Fault]:
    """Refuse a case that sets environment variables before its imports and shares a process."""
    if case.block.isolation is Isolation.PROCESS:
        return
    libraries = {canonicalize_name(item.name) for item in case.head.dependencies}
    set_at = 0
    for node in tree.body:
        if _sets_environment(node):
            set_at = node.lineno
        elif set_at and _imported(node) & libraries:
            found = "it sets environment variables before its imports"
            yield _fault(
                case, _line(case, node.lineno), found, '`isolation = "process"` for such a case'
            )
            return


def _sets_environment(node: ast.stmt) -> bool:
    text = ast.unparse(node)
    return bool(re.search(r"environ(\[|\.(setdefault|update|pop)\()|putenv\(", text)) and not (
        isinstance(node, (ast.FunctionDef, ast.ClassDef))
    )


def _imported(node: ast.stmt) -> set[str]:
    match node:
        case ast.Import(names=names):
            return {str(canonicalize_name(alias.name.partition(".")[0])) for alias in names}
        case ast.ImportFrom(module=str(module)):
            return {str(canonicalize_name(module.partition(".")[0]))}
        case _:
            return set()


def _workarounds(case: Case) -> Iterator[Fault]:
    known = {PLAIN, EVERY, *case.block.workarounds}
    allowed = ", ".join(sorted(case.block.workarounds)) or "none: the case has no workarounds"
    for number, entry in enumerate(case.block.fails):
        for name in entry.workarounds:
            if name not in known:
                yield _fault(case, f"fails[{number}].workarounds", repr(name), allowed)


def _claims(case: Case) -> Iterator[Fault]:
    for number, claim in enumerate(case.block.claims):
        if claim.workaround not in {PLAIN, *case.block.workarounds}:
            key = f"claims[{number}].workaround"
            yield _fault(case, key, repr(claim.workaround), ", ".join(case.block.workarounds))
        if not claim.report.startswith("https://"):
            key = f"claims[{number}].report"
            yield _fault(case, key, repr(claim.report), "the https:// address of a report")


def _packages(case: Case, environments: Mapping[str, Environment]) -> Iterator[Fault]:
    installed = {name for environment in environments.values() for name in environment.pins}
    for key, requirement in _conditions(case):
        if canonicalize_name(requirement.name) not in installed:
            found = f"{requirement.name!r}, which no environment has"
            yield _fault(case, key, found, "a package that some environment has")


def _conditions(case: Case) -> Iterator[tuple[str, Requirement]]:
    for number, entry in enumerate(case.block.fails):
        for requirement in entry.when:
            yield f"fails[{number}].when", requirement
    for number, claim in enumerate(case.block.claims):
        for requirement in claim.when:
            yield f"claims[{number}].when", requirement


def _overlaps(
    case: Case,
    environments: Mapping[str, Environment],
    precisions: Sequence[Precision],
    device: Device,
) -> Iterator[Fault]:
    """Decide over the real cells, not by interval arithmetic, that no two entries hold in one."""
    told: set[tuple[int, int]] = set()
    if len(case.block.fails) < 2:  # noqa: PLR2004
        return
    for name, environment in environments.items():
        held = live(case, environment) if belongs(case, environment) else ()
        if len(held) < 2:  # noqa: PLR2004
            continue
        for cell in cells_of(case, name, precisions, device):
            for pair in _pairs(case, [entry for entry in held if covers(entry, cell)]):
                if pair not in told:
                    told.add(pair)
                    yield _overlap(case, pair, cell)


def _pairs(case: Case, held: Sequence[Failure]) -> Iterator[tuple[int, int]]:
    if len(held) > 1:
        numbers = [number for number, entry in enumerate(case.block.fails) if entry in held]
        yield from combinations(numbers, 2)


def _overlap(case: Case, pair: tuple[int, int], cell: Cell) -> Fault:
    variant = f" with {cell.workaround}" if cell.workaround else ""
    found = f"both hold for {cell.precision} on {cell.environment}{variant}"
    return _fault(case, f"fails[{pair[0]}] and fails[{pair[1]}]", found, "one entry per cell")
