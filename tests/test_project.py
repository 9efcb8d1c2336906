"""A checkout as evidence informs it."""

from __future__ import annotations

import dataclasses

import pytest
from factories import cell, provenance, seen

from repromatrix.runner import project
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.outcomes import Outcome
from repromatrix.runner.paths import Paths


@pytest.mark.parametrize(
    ("version", "before"),
    [("5.16.0.dev0+g3cd1a2307acd", "5.15.1"), ("4.0", ""), ("99.0.0.dev0", "5.23.0")],
)
def test_main_stands_where_its_version_does(version: str, before: str) -> None:
    loaded = project.load(Paths(), [])
    ran = dataclasses.replace(
        provenance(), environment_digest="measured", packages={"transformers": version}
    )

    names = project.informed(loaded, [seen(Outcome.PASSES, cell(MAIN), ran=ran)]).names

    assert names[names.index(MAIN) - 1 : names.index(MAIN)] == ((before,) if before else ())
    assert sorted(names) == sorted(loaded.names)
