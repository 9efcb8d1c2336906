"""Small cases, environments and observations for tests; whatever is not said has a default."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from repromatrix.runner.audit.known import KnownEvidence, known
from repromatrix.runner.audit.packages import Installed
from repromatrix.runner.model.case import Case, read_case
from repromatrix.runner.model.cell import PROTOCOL, Cell, Environment, Source
from repromatrix.runner.model.environment_name import taken_apart
from repromatrix.runner.model.observation import LOCAL, Failed, Observation, Provenance, signature
from repromatrix.runner.model.outcomes import Device, Exercised, Outcome, Precision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MARKERS = {"python_version": "3.11", "python_full_version": "3.11.0", "sys_platform": "linux"}
CODE = '"""A toy must not break. It breaks because it is a toy."""\n\nimport torch\n'
BREAKS = """
[[tool.repromatrix.fails]]
when = ["transformers>=4.50,<4.51"]
precisions = ["bf16"]
raises = "ValueError"
match = "it breaks"
"""


def case_text(
    toml: str = "",
    code: str = CODE,
    *,
    dependencies: Sequence[str] = ("torch", "transformers"),
    requires_python: str = ">=3.10",
) -> str:
    """Return the text of a case file; `toml` goes on below the required keys of the block."""
    content = (
        f'requires-python = "{requires_python}"\n'
        f"dependencies = {json.dumps(list(dependencies))}\n\n"
        "[tool.repromatrix]\n"
        'title = "A toy breaks"\n'
        'reports = ["https://example.org/1"]\n'
        'area = "toys"\n'
        'models = ["toy"]\n'
        'trigger = ["forward"]\n'
        'symptom = ["error"]\n'
        f"{toml}"
    )
    block = "".join(f"# {line}".rstrip() + "\n" for line in content.splitlines())
    return f"# /// script\n{block}# ///\n{code}"


def case(  # noqa: PLR0913 - one argument per part of a file that some test is about
    toml: str = "",
    code: str = CODE,
    *,
    name: str = "toy_breaks",
    dependencies: Sequence[str] = ("torch", "transformers"),
    requires_python: str = ">=3.10",
    extras: Sequence[str] = (),
) -> Case:
    """Return a case, read from its text."""
    text = case_text(toml, code, dependencies=dependencies, requires_python=requires_python)
    return read_case(text, f"cases/{name}.py", extras=extras)


def environment(
    name: str = "4.50.0", *, source: Source = Source.RELEASE, **pins: str
) -> Environment:
    """Return an environment that holds the release of its name, torch, and what is said."""
    held = {"transformers": name, "torch": "2.13.0"} | pins
    return Environment(name=name, source=source, python="3.11", pins=held, markers=MARKERS)


def environments(*names: str) -> dict[str, Environment]:
    """Return several environments by name, in the given order."""
    return {name: environment(name) for name in names}


def cell(
    release: str = "4.50.0",
    precision: Precision = Precision.BF16,
    *,
    workaround: str = "",
    device: Device = Device.CPU,
    name: str = "toy_breaks",
) -> Cell:
    """Return the name of a cell."""
    return Cell(name, workaround, release, precision, device)


def failed(
    error_class: str = "ValueError", message: str = "it breaks", place: str = "", line: str = "f(x)"
) -> Failed:
    """Return how a cell failed; with a place, it has the traceback that says it."""
    module, _, function = place.partition(":")
    path = f"site-packages/{module.replace('.', '/')}.py"
    return Failed(
        error_class=error_class,
        message=message,
        signature=signature(error_class, message),
        traceback=f'  File "{path}", line 7, in {function}\n    {line}\n' if place else "",
    )


PLACES = {
    "a": failed(place="toy.layers:Attention.forward", line="self.a(x)"),
    "m": failed(place="toy.moved:Attention.forward", line="self.a(x)"),
    "b": failed(place="toy.layers:Block.forward", line="self.b(x)"),
}
"""Failures as `BREAKS` says, by a letter: in a function, in the same one moved, in another one."""


def provenance(of: Case | None = None, on: Environment | None = None) -> Provenance:
    """Return what a cell of this case in this environment would run on now."""
    of, on = of or case(), on or environment()
    return Provenance(
        case_digest=of.digest,
        environment_digest=on.digest,
        packages=on.pins,
        python="3.11.9",
        torch_build="2.13.0+cpu",
        hardware="x86_64 avx2",
        protocol=PROTOCOL,
        run="20261121T000000",
    )


def seen(  # noqa: PLR0913 - one argument per fact that some test is about
    outcome: Outcome = Outcome.PASSES,
    at: Cell | None = None,
    *,
    how: Failed | None = None,
    exercised: Exercised = Exercised.YES,
    unstable: bool = False,
    ran: Provenance | None = None,
    computed: Mapping[str, int] | None = None,
) -> Observation:
    """Return an observation; one that fails does so as `BREAKS` says, unless `how` is given."""
    fails = how or (failed() if outcome is Outcome.FAILS else None)
    return Observation(
        cell=at or cell(),
        outcome=outcome,
        provenance=ran or provenance(),
        source=LOCAL,
        failed=fails,
        exercised=exercised,
        computed=computed or {},
        unstable=unstable,
        seconds=0.25,
    )


def installed(transformers: str = "4.50.0", *, whole: bool = True, **pins: str) -> Installed:
    """Return a set of packages with a torch of its own; an empty version is one that is loose."""
    named = {"transformers": transformers, "torch": "2.6.0"} | pins
    return Installed(
        what="mine.txt",
        form="requirements file",
        pins={name: version for name, version in named.items() if version},
        loose={name: ">=1, not a pin" for name, version in named.items() if not version},
        whole=whole,
        markers=MARKERS,
    )


def what_is_known(
    outcomes: Mapping[str, Outcome],
    of: Case | None = None,
    pins: Mapping[str, Mapping[str, str]] | None = None,
) -> KnownEvidence:
    """Return what is known where a case had these outcomes in these environments, in bf16."""
    of = of or case(BREAKS)
    held = {
        name: dataclasses.replace(
            environment(name), pins={**environment(name).pins, **(pins or {}).get(name, {})}
        )
        for name in outcomes
    }
    for name in of.block.environments:
        parts = taken_apart(name)
        moved = {"transformers": parts.base} | dict(parts.changed)
        held[name] = environment(name, source=Source.PAIR, **moved)
    rows = [
        seen(outcome, cell(name, name=of.name), ran=provenance(of, held[name]))
        for name, outcome in outcomes.items()
        if outcome is not Outcome.NOT_RUN
    ]
    return known({of.name: of}, held, rows)


def rows_of(known: KnownEvidence) -> dict[Cell, Observation]:
    """Return the row of each cell of which something is known."""
    cells = (
        Cell(case_name, workaround, name, precision, device)
        for (case_name, workaround, precision, device), line in known.lines.items()
        for name in line
    )
    return {at: known.row(at) for at in cells}
