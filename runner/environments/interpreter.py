"""A ready interpreter that stands in for an environment: `--python PATH`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from packaging.utils import canonicalize_name

from runner import processes
from runner.environments.building import Built
from runner.environments.shelf import markers
from runner.errors import Fault, refuse
from runner.model.cell import Environment, Source

_ASK = """
import json, sys
from importlib import metadata
found = {d.metadata["Name"]: d.version for d in metadata.distributions() if d.metadata["Name"]}
print(json.dumps([".".join(map(str, sys.version_info[:3])), sys.prefix, found]))
"""


def ask(python: Path) -> tuple[Environment, Built]:
    """Ask an interpreter what is installed; raises RunnerError when it does not answer."""
    done = processes.finish([python, "-c", _ASK], seconds=60)
    if done.code != 0:
        last = (done.err.strip().splitlines() or ["nothing"])[-1]
        fault = Fault(where=str(python), found=last, allowed="a Python 3.10 or newer")
        raise refuse(fault)
    version, prefix, found = json.loads(done.out)
    pins = {str(canonicalize_name(name)): found[name] for name in sorted(found)}
    minor = version.rpartition(".")[0]
    installed = hashlib.sha256(json.dumps([prefix, pins]).encode()).hexdigest()
    name = f"{pins.get('transformers', 'none')}@{installed[:8]}"
    environment = Environment(
        name=name, source=Source.INTERPRETER, python=minor, pins=pins, markers=markers(minor)
    )
    return environment, Built(name=name, folder=Path(prefix), python=python, versions=pins)
