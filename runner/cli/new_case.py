"""`new-case`: a case file from the address of a report, or from a script.

What only a person can know stays empty, and `check` asks for it.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer
from packaging.utils import canonicalize_name

from repromatrix.runner import files, project
from repromatrix.runner.cases import load_case
from repromatrix.runner.cli.options import Console, command
from repromatrix.runner.environments import locks
from repromatrix.runner.errors import ExitCode, InvalidValue, Problem, RunnerError, refuse
from repromatrix.runner.evidence.swept.published import read_architectures
from repromatrix.runner.judging.lint import NAME, scrutinise
from repromatrix.runner.judging.proposals import BlockProposal, propose
from repromatrix.runner.model.case import decode, parse_python, parse_script
from repromatrix.runner.model.outcomes import Device
from repromatrix.runner.model.packages import COMPANIONS, UNDER_TEST
from repromatrix.runner.model.requirements import parse
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_SOURCE = "SOURCE"
_NOTHING = BlockProposal()
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
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    torch.ones(2, device=device, dtype=dtype)  # the model of the report, tiny, from its config


if __name__ == "__main__":
    main(*sys.argv[1:])
"""


_Draft = tuple[str, str, list[str]]
"""A case to be: its name, its text, and remarks about them."""


@command("new-case")
def begin(
    paths: Paths,
    console: Console,
    source: Annotated[
        str,
        typer.Argument(
            metavar=_SOURCE,
            help="The address of an issue or pull request on GitHub, or a script with inline"
            " dependencies.",
        ),
    ],
    name: Annotated[str, "The name of the file, without `.py`."] = "",
    text: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="The text of the report, or `-` for standard input; from it title, area, models,"
            " trigger, symptom, error and the releases to try are proposed.",
        ),
    ] = "",
) -> ExitCode:
    """Create a case file from the address of a report, or from a script.

    Prints what is left to do; raises RunnerError instead.
    """
    if "://" in source:
        stem, written, remarks = from_address(source, _proposed(paths, text) if text else _NOTHING)
    elif Path(source).is_file():
        read = decode(Path(source).read_bytes(), source)
        stem, written, remarks = from_script(read, source)
    else:
        fix = "Give the address of an issue or pull request, or a script."
        raise refuse(Problem(_SOURCE, f"the file {source!r} does not exist", fix))
    if name and not NAME.match(name):
        expected = "<model or package>_<what>, lower-case words joined by _"
        raise refuse(InvalidValue("--name", name, expected))
    path = paths.cases / f"{name or stem}.py"
    where = paths.shown(path)
    if path.exists():
        raise refuse(Problem(where, "the file exists", "Choose another name with `--name`."))
    files.write(path, written)
    console.print(where)
    for remark in remarks:
        console.print(f"  {remark}")
    console.print("Left to you, as `nox -s check` will say:")
    matrix = locks.load_matrix(paths)
    try:
        case = load_case(path, where, matrix.extras)
    except RunnerError as error:
        left = list(error.faults)
    else:
        left = scrutinise(case, {}, matrix.precisions, Device)
    for fault in left:
        console.print(f"  {str(fault).removeprefix(f'{where}: ')}")
    return ExitCode.AS_EXPECTED


def _proposed(paths: Paths, where: str) -> BlockProposal:
    """Return what the text of a report suggests; raises RunnerError where it cannot be read."""
    if where == "-":
        text = sys.stdin.read()
    elif Path(where).is_file():
        text = decode(Path(where).read_bytes(), where)
    else:
        fix = "Save the text of the report, or pipe it in and give `-`."
        raise refuse(Problem("--text", f"the file {where!r} does not exist", fix))
    loaded, _ = project.read(paths, None)
    cases = loaded.cases.values()
    families = {family for case in cases for family in case.block.families}
    families |= {one.name for one in read_architectures(paths.published)}
    return propose(text, cases, families, [release.name for release in loaded.matrix.releases])


def from_address(address: str, proposal: BlockProposal = _NOTHING) -> _Draft:
    """Return a draft for an issue or a pull request; nothing is fetched. Raises RunnerError."""
    thread = _THREAD.match(address)
    if thread is None:
        expected = "https://github.com/OWNER/REPOSITORY/issues/NUMBER or …/pull/NUMBER"
        raise refuse(InvalidValue(_SOURCE, address, expected))
    package = canonicalize_name(thread["repo"])
    beside = [package] if package in COMPANIONS else []
    name = f"{package.replace('-', '_')}_{thread['what'].rstrip('s')}_{thread['number']}"
    remarks = ["Name the file after the model and what it does wrong: readers search for that."]
    if proposal == _NOTHING:
        read = f"gh issue view {thread.group()} | … {thread.group()} --text -"
        remarks.append(f"To have the block proposed: {read}")
    else:
        what = "The block was proposed from the text of the report: check every value of it."
        remarks.append(what)
        if proposal.raises:
            remarks.append(f"The report shows {proposal.raises}: {proposal.match}")
        remarks.append(f"Try it on {','.join(proposal.releases)} first.")
    block = _block([thread.group()], ["torch", "transformers", *beside], ">=3.10", proposal)
    return name, block + _BODY, remarks


def from_script(text: str, where: str) -> _Draft:
    """Return a draft that keeps the body of a script with inline dependencies.

    Exact versions of the libraries that the matrix varies are dropped.
    Raises RunnerError when there is no block, when it is a case already, or when the body asks
    for the network.
    """
    script = parse_script(text, where)
    if "repromatrix" in script.table.get("tool", {}):
        raise refuse(Problem(where, "this is a case already", "Copy it into `cases/` as it is."))
    # Everything but the block: what stands above it is the script's, too.
    above = text[: text.index(script.block)].splitlines(keepends=True)
    kept = "".join(line for line in above if not line.startswith("#!")).rstrip()
    body = (f"{kept}\n" if kept else "") + script.code.lstrip("\n")
    if network := list(dict.fromkeys(_network(parse_python(text, where)))):
        fix = "Build tiny models from a config, with random weights, and run the command again."
        raise refuse(Problem(where, f"it needs the network: {'; '.join(network[:5])}", fix))
    requirements = _dependencies(script.table, where)
    loosened = [
        item
        for item in requirements
        if canonicalize_name(item.name) in UNDER_TEST
        and (item.url or any(part.operator in {"==", "===", "~="} for part in item.specifier))
    ]
    dependencies = [item.name if item in loosened else str(item) for item in requirements]
    remarks = [f"{item} became {item.name}: the matrix chooses the version." for item in loosened]
    remarks += [f"[tool.{name}] was left out." for name in script.table.get("tool", {})]
    if "argv" not in body:
        remarks.append("The body must take its precision, and a workaround, from the command line.")
    requires = str(script.table.get("requires-python", ">=3.10"))
    name = re.sub(r"[^a-z0-9]+", "_", PurePath(where).stem.lower()).strip("_") or "new_case"
    return name, _block([], dependencies, requires) + body, remarks


def _dependencies(table: Mapping[str, Any], where: str) -> list[Requirement]:
    value = table.get("dependencies", [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise refuse(InvalidValue(f"{where}: dependencies", value, "a list of requirements"))
    requirements = []
    for item in value:
        try:
            requirements.append(parse(item))
        except ValueError as error:
            what = f"{item!r} is no requirement ({error})"
            raise refuse(Problem(f"{where}: dependencies", what)) from error
    return requirements


def _block(
    reports: Sequence[str],
    dependencies: Iterable[str],
    requires: str,
    proposal: BlockProposal = _NOTHING,
) -> str:
    lines = [
        f"requires-python = {json.dumps(requires)}",
        f"dependencies = {json.dumps(list(dependencies))}",
        "",
        "[tool.repromatrix]",
        f"title = {json.dumps(proposal.title, ensure_ascii=False)}",
        f"reports = {json.dumps(list(reports))}",
        f"area = {json.dumps(proposal.area)}",
        f"models = {json.dumps(list(proposal.models))}",
        f"trigger = {json.dumps(list(proposal.trigger))}",
        f"symptom = {json.dumps(list(proposal.symptom))}",
    ]
    block = "".join(f"# {line}".rstrip() + "\n" for line in lines)
    return f"# /// script\n{block}# ///\n"


def _network(tree: ast.Module) -> Iterator[str]:
    """Yield the lines that ask for the network: its modules, and names of models on the hub."""
    nodes = [*ast.walk(tree)]
    texts = {}  # by the names to which they are assigned, wherever that is
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                texts[name] = text
            case _:
                pass
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (
                    f"line {node.lineno}: import {alias.name}"
                    for alias in names
                    if alias.name.partition(".")[0] in _NETWORK
                )
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in _NETWORK:
                yield f"line {node.lineno}: from {module} import"
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in _HUB_CALLS:
                models = _hub_ids(node, name, texts)
                yield from (f"line {node.lineno}: {name}({text!r})" for text in models)
            case _:
                pass


def _hub_ids(node: ast.Call, called: str, texts: Mapping[str, str]) -> Iterator[str]:
    """Yield names of models on the hub: the first argument, or `model`, unless it is a path."""
    model = [keyword.value for keyword in node.keywords if keyword.arg == "model"]
    first = node.args[1:2] if called == "pipeline" and not model else node.args[:1]
    for part in [*model, *first]:
        match part:
            case ast.Constant(value=str(text)) if _HUB_ID.fullmatch(text):
                yield text
            case ast.Name(id=name) if _HUB_ID.fullmatch(texts.get(name, "")):
                yield texts[name]
            case _:
                pass
