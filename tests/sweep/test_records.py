"""Answers of cells, read: what a process could not say is unknown, never a pass."""

from __future__ import annotations

import dataclasses
import json

from factories import failed, seen

from repromatrix.runner.evidence.swept.probes import BUILD, PROBES
from repromatrix.runner.evidence.swept.records import (
    ProbeKey,
    ProbeRecord,
    ProbeStatus,
    counted_kinds,
)
from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Device, Outcome, Precision
from repromatrix.sweep.cells import records

CELL = Cell("llama/generate", "", "4.50.0", Precision.FP32, Device.CPU)
HOLDS = {"probe": "cached", "status": "holds", "seconds": 0.1}
FAILS = {
    "probe": "static",
    "status": "fails",
    "error": "ValueError",
    "message": "no",
    "place": "m:f",
}


def answered(answer: object, outcome: Outcome = Outcome.PASSES) -> Observation:
    return dataclasses.replace(seen(outcome, CELL), output=json.dumps(answer))


def test_each_probe_of_an_answer_is_a_record() -> None:
    found = records([answered({"built": True, "probes": [HOLDS, FAILS]})])

    assert found == {
        ProbeKey("llama", BUILD): ProbeRecord(
            key=ProbeKey("llama", BUILD), status=ProbeStatus.HOLDS
        ),
        ProbeKey("llama", "cached"): ProbeRecord(
            key=ProbeKey("llama", "cached"), status=ProbeStatus.HOLDS
        ),
        ProbeKey("llama", "static"): ProbeRecord(
            key=ProbeKey("llama", "static"),
            status=ProbeStatus.FAILS,
            error="ValueError",
            message="no",
            place="m:f",
        ),
    }


def test_a_model_that_cannot_be_built_is_a_failure_of_its_own() -> None:
    error = {"error": "KeyError", "message": "x", "place": "m:f"}
    (found,) = records([answered({"built": error, "probes": []})]).values()

    assert (found.key, found.status, found.headline) == (
        ProbeKey("llama", BUILD),
        ProbeStatus.FAILS,
        "KeyError: x",
    )


def test_a_process_that_ended_badly_makes_its_probes_unknown() -> None:
    row = dataclasses.replace(answered(None), outcome=Outcome.CRASHES, failed=failed("SIGSEGV", ""))
    found = records([row])

    assert {key.probe for key in found} == {
        probe.name for probe in PROBES if probe.family == "generate"
    }
    assert {one.status for one in found.values()} == {ProbeStatus.UNKNOWN}
    assert "crashes: SIGSEGV" in found[ProbeKey("llama", "cached")].why
    assert records([answered([])]) == records([dataclasses.replace(answered(0), output="{")])


def test_classes_are_not_counted_as_architectures() -> None:
    counts = [counted_kinds(kinds) for kinds in (["bert"], ["bert:BertModel", "t5:T5Model"], [])]

    assert counts == ["1 architecture", "2 classes", "0 architectures"]
