"""Run probes on a recipe, and say of each how it ended."""

from __future__ import annotations

import importlib
import os
import time
import traceback
from typing import Any

import torch

from repromatrix.runner.evidence.swept.probes import PROBES, ProbeName
from repromatrix.sweep.child.probes.subject import ProbeDiffers, ProbeSkipped, Subject
from repromatrix.sweep.child.recipe import quiet

_PACKAGES = ("transformers", "accelerate", "peft")
_LONGEST = 500


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run the probes of a request on its recipe; return a record of each."""
    by_name = {probe.name: probe for probe in PROBES}
    subject = Subject(request["recipe"], request.get("seed", 0))
    with quiet():
        try:
            subject.model()
        except Exception as error:
            return {"built": failure(error), "probes": []}
        return {
            "built": True,
            "probes": [_record(by_name[name], subject) for name in request["probes"]],
        }


def _record(probe: ProbeName, subject: Subject) -> dict[str, Any]:
    module = importlib.import_module(f"repromatrix.sweep.child.probes.{probe.family}")
    function = getattr(module, probe.name.replace("-", "_"))
    subject.summary, subject.value = {}, None
    began = time.perf_counter()
    try:
        torch.manual_seed(subject.seed)
        with _Settings():
            function(subject)
        said: dict[str, Any] = {"status": "holds"}
    except ProbeSkipped as reason:
        said = {"status": "skipped", "why": str(reason)[:_LONGEST]}
    except ProbeDiffers as found:
        said = {"status": "differs", "why": str(found)[:_LONGEST]}
        subject.value = found.value if found.value is not None else subject.value
    except Exception as error:
        said = {"status": "fails", **failure(error)}
    said |= {"probe": probe.name, "seconds": round(time.perf_counter() - began, 4)}
    if subject.value is not None and subject.value - subject.value == 0:
        said["value"] = float(f"{subject.value:.4g}")
    if subject.summary and said["status"] == "holds":
        said["summary"] = subject.summary
    return said


class _Settings:
    """Puts back what a probe may leave behind in the process."""

    def __enter__(self) -> None:
        self.dtype = torch.get_default_dtype()
        self.grad = torch.is_grad_enabled()
        self.deterministic = torch.are_deterministic_algorithms_enabled()
        self.environ = dict(os.environ)

    def __exit__(self, *_: object) -> None:
        torch.set_default_dtype(self.dtype)
        torch.set_grad_enabled(self.grad)
        torch.use_deterministic_algorithms(self.deterministic)
        torch.clear_autocast_cache()
        for name in os.environ.keys() - self.environ.keys():
            del os.environ[name]
        os.environ.update(self.environ)


def failure(error: BaseException) -> dict[str, Any]:
    """Return class, message and place of an exception."""
    return {
        "error": type(error).__name__,
        "message": str(error)[:_LONGEST],
        "place": place_of(error),
    }


def place_of(error: BaseException) -> str:
    """Return the innermost frame in a library under test as `module:function`; else nothing."""
    place = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in _PACKAGES:
            code = frame.f_code
            place = f"{module}:{getattr(code, 'co_qualname', code.co_name)}"
    return place
