"""A ready interpreter that stands in for an environment: `--python PATH`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from packaging.utils import canonicalize_name

from repromatrix.runner import subprocesses
from repromatrix.runner.environments.building import Built
from repromatrix.runner.environments.locks import markers
from repromatrix.runner.errors import Problem, refuse
from repromatrix.runner.model.cell import Environment, Source

# An editable install is identified by its sources too: with each edit it is another version.
_ASK = """
import hashlib, json, os, sys, urllib.parse
from importlib import metadata
def version(d):
    about = json.loads(d.read_text("direct_url.json") or "{}")
    if not about.get("dir_info", {}).get("editable"):
        return d.version
    sources = hashlib.sha256()
    root = urllib.parse.unquote(urllib.parse.urlparse(about["url"]).path)
    for folder, folders, files in sorted(os.walk(root)):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    sources.update(file.read())
    mark = "." if "+" in d.version else "+"
    return f"{d.version}{mark}edited.{sources.hexdigest()[:12]}"
found = {d.metadata["Name"]: version(d) for d in metadata.distributions() if d.metadata["Name"]}
print(json.dumps([".".join(map(str, sys.version_info[:3])), sys.prefix, found]))
"""


def ask(python: Path) -> tuple[Environment, Built]:
    """Ask an interpreter what is installed; raises RunnerError when it does not answer."""
    done = subprocesses.finish([python, "-c", _ASK], seconds=60)
    if done.code != 0:
        last = (done.err.strip().splitlines() or ["it says nothing"])[-1]
        fix = "It must be a Python 3.10 or newer."
        raise refuse(Problem(str(python), f"it cannot list its packages ({last})", fix))
    try:
        version, prefix, found = json.loads(done.out)
    except ValueError as error:  # a start-up file of its own prints first
        what = f"it prints something when it starts: {done.out.strip()[:60]!r}"
        raise refuse(Problem(str(python), what)) from error
    pins = {str(canonicalize_name(name)): found[name] for name in sorted(found)}
    minor = version.rpartition(".")[0]
    installed = hashlib.sha256(json.dumps([prefix, pins]).encode()).hexdigest()
    name = f"{pins.get('transformers', 'none')}@{installed[:8]}"
    environment = Environment(
        name=name, source=Source.INTERPRETER, python=minor, pins=pins, markers=markers(minor)
    )
    return environment, Built(name=name, folder=Path(prefix), python=python, versions=pins)
