"""A new case, as far as an address or a script can tell it; what a person must say stays empty."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from repromatrix.runner.errors import OldFault, refuse
from repromatrix.runner.model.packages import COMPANIONS, UNDER_TEST
from repromatrix.runner.model.requirements import parse
from repromatrix.runner.model.script import Script, parse_python, parse_script

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_THREAD = re.compile(
    r"https://github\.com/(?P<owner>[\w.-]+)/(?P<repo>[\w.-]+)/(?P<what>issues|pull)/(?P<number>\d+)(?!\w)"
)
_HUB_CALLS = frozenset(
    {"from_pretrained", "pipeline", "load_dataset", "load_metric", "evaluate_load"}
)
_HUB_ID = re.compile(r"\w[\w.-]*(/[\w.-]+)?")
_NETWORK = frozenset(
    {"requests", "urllib", "httpx", "aiohttp", "datasets", "huggingface_hub", "socket"}
)

_BODY = """

import os
import sys

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {""}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(0)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    torch.ones(2, device=device, dtype=dtype)  # the model of the report, tiny, from its config


if __name__ == "__main__":
    main(*sys.argv[1:])
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A case to be: its name, its text, and what was changed on the way, in sentences."""

    name: str
    text: str
    said: tuple[str, ...] = ()


def from_address(address: str) -> Draft:
    """Return a draft for an issue or a pull request; nothing is fetched. Raises RunnerError."""
    found = _THREAD.match(address)
    if found is None:
        allowed = "https://github.com/OWNER/REPOSITORY/issues/NUMBER or …/pull/NUMBER"
        raise refuse(OldFault(where="new-case", found=repr(address), allowed=allowed))
    package = canonicalize_name(found["repo"])
    beside = [package] if package in COMPANIONS else []
    name = f"{package.replace('-', '_')}_{found['what'].rstrip('s')}_{found['number']}"
    return Draft(
        name=name,
        text=_block([found.group()], ["torch", "transformers", *beside], ">=3.10") + _BODY,
        said=("Name the file after the model and what it does wrong: readers search for that.",),
    )


def from_script(text: str, where: str) -> Draft:
    """Return a draft that keeps the body of a script with inline dependencies.

    Exact versions of the libraries that the matrix moves are let go: the matrix sets them.
    Raises RunnerError when there is no block, when it is a case already, or when the body asks
    for the network.
    """
    script = parse_script(text, where)
    if "repromatrix" in script.table.get("tool", {}):
        allowed = "a script that is no case yet"
        remedy = "Copy it into `cases/` as it is."
        fault = OldFault(where=where, found="a case already", allowed=allowed, fix=remedy)
        raise refuse(fault)
    body = _body(text, script)
    tree = parse_python(text, where)
    _refuse_network(tree, where)
    wanted = [_requirement(item, where) for item in _dependencies(script.table, where)]
    loosened = [item for item in wanted if _is_moved(item)]
    dependencies = [item.name if item in loosened else str(item) for item in wanted]
    said = [f"{item} became {item.name}: the matrix chooses the version." for item in loosened]
    said += [f"[tool.{name}] was left out." for name in script.table.get("tool", {})]
    if "argv" not in body:
        said.append("The body must take its precision, and a workaround, from the command line.")
    requires = str(script.table.get("requires-python", ">=3.10"))
    return Draft(
        name=re.sub(r"[^a-z0-9]+", "_", PurePath(where).stem.lower()).strip("_") or "new_case",
        text=_block([], dependencies, requires) + body,
        said=tuple(said),
    )


def _body(text: str, script: Script) -> str:
    """Return everything but the block: what stands above it is the script's, too."""
    above = text[: text.index(script.block)]
    kept = "".join(line for line in above.splitlines(keepends=True) if not line.startswith("#!"))
    return (kept.rstrip("\n") + "\n" if kept.strip() else "") + script.code.lstrip("\n")


def _dependencies(table: Mapping[str, Any], where: str) -> list[str]:
    found = table.get("dependencies", [])
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        allowed = "a list of requirements"
        raise refuse(OldFault(where=where, key="dependencies", found=repr(found), allowed=allowed))
    return found


def _requirement(item: str, where: str) -> Requirement:
    try:
        return parse(item)
    except ValueError as error:
        fault = OldFault(where=where, key="dependencies", found=repr(item), allowed=str(error))
        raise refuse(fault) from error


def _is_moved(item: Requirement) -> bool:
    exact = any(part.operator in {"==", "===", "~="} for part in item.specifier)
    return (exact or bool(item.url)) and canonicalize_name(item.name) in UNDER_TEST


def _block(reports: Sequence[str], dependencies: Iterable[str], requires: str) -> str:
    """Return the block; an empty value is what `check` will ask a person for."""
    lines = [
        f"requires-python = {json.dumps(requires)}",
        f"dependencies = {json.dumps(list(dependencies))}",
        "",
        "[tool.repromatrix]",
        'title = ""',
        f"reports = {json.dumps(list(reports))}",
        'area = ""',
        "models = []",
    ]
    block = "".join(f"# {line}".rstrip() + "\n" for line in lines)
    return f"# /// script\n{block}# ///\n"


def _refuse_network(tree: ast.Module, where: str) -> None:
    found = list(dict.fromkeys(_network(tree)))
    if found:
        allowed = "tiny models built from a config, with random weights and no download"
        remedy = "Replace them, then ask again."
        shown = "; ".join(found[:5])
        fault = OldFault(
            where=where, found=f"what needs the network: {shown}", allowed=allowed, fix=remedy
        )
        raise refuse(fault)


def _network(tree: ast.Module) -> Iterator[str]:
    named = dict(_named_texts(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (
                    f"line {node.lineno}: import {alias.name}"
                    for alias in names
                    if alias.name.partition(".")[0] in _NETWORK
                )
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in _NETWORK:
                yield f"line {node.lineno}: from {module} import"
            case ast.Call() if _called(node) in _HUB_CALLS:
                yield from (
                    f"line {node.lineno}: {_called(node)}({text!r})"
                    for text in _hub_ids(node, named)
                )
            case _:
                pass


def _named_texts(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names that are given a plain text, wherever that is."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                yield name, text
            case _:
                pass


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _hub_ids(node: ast.Call, named: Mapping[str, str]) -> Iterator[str]:
    """Yield what names a model of the hub: the first argument, or `model`, unless it is a path."""
    model = [keyword.value for keyword in node.keywords if keyword.arg == "model"]
    first = node.args[1:2] if _called(node) == "pipeline" and not model else node.args[:1]
    for part in [*model, *first]:
        match part:
            case ast.Constant(value=str(text)) if _HUB_ID.fullmatch(text):
                yield text
            case ast.Name(id=name) if _HUB_ID.fullmatch(named.get(name, "")):
                yield named[name]
            case _:
                pass
