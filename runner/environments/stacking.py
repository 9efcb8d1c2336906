"""Locks of stacks: a program on top of transformers, resolved as a week after its release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.environments.pinning import COOLING, compile_lock
from runner.model.lock import inputs_digest

if TYPE_CHECKING:
    from runner.model.matrix import Matrix, Stack

PLATFORM = "x86_64-manylinux_2_28"
"""What stacks are resolved for: their packages have no builds for every platform."""


def inputs(matrix: Matrix, stack: Stack) -> tuple[str, ...]:
    """Return what the lock of a stack is resolved from, one fact per line."""
    torch = matrix.torch
    named = {one.name for one in stack.beside}
    return (
        f"{stack.package}=={stack.version}",
        *map(str, stack.beside),
        *(f"{override} whatever a package says" for override in stack.overrides),
        f"torch=={torch.version}",
        *(f"torch needs {requirement}" for requirement in torch.requires),
        *(
            f"{package} is built against torch"
            for package in torch.built_against
            if package in named
        ),
        f"python {matrix.python} on {PLATFORM}",
        f"as of {stack.date + COOLING}, what goes with torch alone as of {torch.as_of}",
    )


def resolve(matrix: Matrix, stack: Stack) -> str:
    """Return the text of the lock of a stack; raises RunnerError with the resolver's reason."""
    lines = inputs(matrix, stack)
    head = (
        f"# Made by: nox -s lock -- {stack.name}\n"
        f"# {lines[-1]}; torch {matrix.torch.version} and its accelerator packages are left out.\n"
        f"# input: {inputs_digest(lines)}\n"
    )
    return head + compile_lock(
        matrix,
        [f"{stack.package}=={stack.version}", *map(str, stack.beside)],
        until=stack.date + COOLING,
        where=stack.name,
        overrides=[*map(str, stack.overrides)],
        platform=PLATFORM,
    )
