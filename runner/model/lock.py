"""A lock: the pinned packages of one environment, as a requirements file with hashes."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging import utils

from repromatrix.runner.errors import Fault, Problem, RunnerError
from repromatrix.runner.model.requirements import parse

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_INPUT = re.compile(r"(?m)^# input: (\w+)$")
_UNRESOLVED = re.compile(r"(?m)^# unresolved: (.+)$")
_BLOCK = re.compile(r"(?m)^[^#\s](?:.*\\\n)*.*\n?")
# Neighbouring releases share most names.
canonicalize_name = functools.cache(utils.canonicalize_name)
_LEFT_OUT = re.compile(r"^(torch|triton|nvidia-.*|cuda-.*|pytorch-triton.*)$")


def left_out(name: str) -> bool:
    """Say whether a package belongs to torch's build and is therefore in no lock."""
    return bool(_LEFT_OUT.match(canonicalize_name(name)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Lock:
    """The pins of one environment; `inputs` identifies what they were resolved from."""

    name: str
    pins: tuple[Requirement, ...]
    inputs: str
    digest: str
    text: str
    unresolved: str = ""
    """Why what it would add cannot be installed beside its base; it pins nothing then."""

    def versions(
        self, markers: Mapping[str, str], names: Collection[str] | None = None
    ) -> dict[str, str]:
        """Return what is installed where the markers evaluate so: canonical name to version.

        With `names` only of these packages.
        """
        return {
            name: next(iter(pin.specifier)).version
            for pin in self.pins
            if ((name := canonicalize_name(pin.name)) and (names is None or name in names))
            and (pin.marker is None or pin.marker.evaluate(dict(markers)))
        }


def inputs_digest(lines: Iterable[str]) -> str:
    """Identify the inputs of a resolution, so that a lock made from others is seen to be stale."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def read_lock(text: str, name: str, where: str, *, of_torch: bool = False) -> Lock:
    """Read a lock; raises RunnerError with every line that pins nothing or carries no hash.

    Only the lock `of_torch` itself pins torch and its accelerator packages.
    """
    pins: list[Requirement] = []
    faults: list[Fault] = []
    for line in map(str.strip, text.replace("\\\n", " ").splitlines()):
        if not line or line[0] == "#":
            continue
        try:
            pins.append(_pin(line, of_torch=of_torch))
        except ValueError as error:
            fix = "Every line is name==version with a hash, and none is of torch's packages."
            faults.append(Problem(f"{where}: {line[:60]}", str(error), fix))
    if faults:
        raise RunnerError(faults)
    found = _INPUT.search(text)
    why = _UNRESOLVED.search(text)
    return Lock(
        name=name,
        pins=tuple(pins),
        inputs=found[1] if found else "",
        digest=hashlib.sha256(text.encode()).hexdigest()[:16],
        text=text,
        unresolved=why[1] if why else "",
    )


def overlaid(base: Lock, difference: Lock) -> Lock:
    """Return the lock of a derived environment: the base's lines, those that differ replaced."""
    names = {canonicalize_name(pin.name) for pin in difference.pins}
    kept = [block for block in _blocks(base.text) if _name(block) not in names]
    text = "".join([*kept, *_blocks(difference.text)])
    pins = [pin for pin in base.pins if canonicalize_name(pin.name) not in names]
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return replace(difference, pins=(*pins, *difference.pins), digest=digest, text=text)


def parted(text: str, names: Collection[str]) -> tuple[str, str]:
    """Return the lines of a lock without these packages (canonical names), and theirs."""
    blocks = _blocks(text)
    apart = [block for block in blocks if _name(block) in names]
    return "".join(block for block in blocks if block not in apart), "".join(apart)


def torch_part(text: str, also: Collection[str]) -> str:
    """Return of a resolution what belongs to torch's build, and the pins of some packages.

    All else that torch needs stays as the lock has it that this one is laid over.
    """
    blocks = _blocks(text)
    return "".join(block for block in blocks if left_out(_name(block)) or _name(block) in also)


def difference(base: str, whole: str) -> str:
    """Return what of a resolution stands otherwise in its base, as text.

    A package may have a pin for each of several platforms: where one of them differs all are
    given. Hashes alone are no difference, an index may know more of them than another.
    """
    known, found = _by_name(base), _by_name(whole)
    return "".join(
        block
        for name, blocks in found.items()
        if {_pinned(block) for block in blocks} != {_pinned(block) for block in known.get(name, [])}
        for block in blocks
    )


def _by_name(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for block in _blocks(text):
        found.setdefault(_name(block), []).append(block)
    return found


def _blocks(text: str) -> list[str]:
    """Return every pin with its hashes, as it is written; comments are left out."""
    return [match.group() for match in _BLOCK.finditer(text)]


def _pinned(block: str) -> str:
    return block.partition("--hash=")[0].rstrip(" \\\n")


def _name(block: str) -> str:
    return canonicalize_name(re.split(r"[=\s\[;]", block, maxsplit=1)[0])


def _pin(line: str, *, of_torch: bool) -> Requirement:
    requirement, *hashes = line.split(" --hash=", 1)
    pin = _read(requirement.strip())
    if not hashes:
        msg = f"{pin.name} has no hash"
        raise ValueError(msg)
    if left_out(pin.name) and not of_torch:
        msg = f"{pin.name} is chosen by matrix.toml"
        raise ValueError(msg)
    return pin


@functools.cache
def _read(text: str) -> Requirement:
    """Read a pin; neighbouring releases share most of theirs."""
    pin = parse(text)
    if not re.fullmatch(r"==[^*,]+", str(pin.specifier)):
        msg = f"{pin.name} has no exact version"
        raise ValueError(msg)
    return pin
