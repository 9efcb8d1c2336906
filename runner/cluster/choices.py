"""Choices of the person who runs, sent along with a run; a node's own stand before them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from runner.environments import development, torch_build
from runner.environments.building import UnbuildableError
from runner.errors import Fault, refuse
from runner.model.cell import Source

if TYPE_CHECKING:
    from runner.campaign import Campaign

_SECRET = re.compile(r"://[^/@]*:[^/@]*@|https?://[^/@]+@")


def choices(campaign: Campaign) -> dict[str, str]:
    """Return them as environment variables: torch's build, and the commit of `main` for all nodes.

    An address with a password stays here.
    Raises RunnerError where `main` is a folder of this machine: no node has it.
    """
    chosen = {"UV_TORCH_BACKEND": torch_build.chosen(), development.VARIABLE: _main(campaign)}
    return {name: value for name, value in chosen.items() if value}


def _main(campaign: Campaign) -> str:
    project = campaign.project
    selected = campaign.selection.environments
    if not any(project.environments[name].source is Source.MAIN for name in selected):
        return ""
    folder = os.environ.get(development.VARIABLE, "")
    try:
        requirement = development.origin(project.matrix).requirement
    except UnbuildableError:
        return ""  # perhaps a node reaches it; if none does, the column says why
    if "file://" in requirement:
        allowed = "a requirement or a repository that the nodes can reach"
        raise refuse(Fault(where=development.VARIABLE, found=folder, allowed=allowed))
    return "" if _SECRET.search(requirement) else requirement
