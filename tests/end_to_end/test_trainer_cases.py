"""A case that trains, held against what a GPU does with fp16: a GradScaler, on a CPU."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from repromatrix.runner import project
from repromatrix.runner.environments import building
from repromatrix.runner.paths import ROOT
from repromatrix.runner.subprocesses import finish

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.paths import Paths

CASE = "gemma3_trainer_eval"
SCALED = """
import json, runpy, sys
import torch, transformers

def train(self):
    model, (row,) = self.model, self.train_dataset
    trained = [one for one in model.parameters() if one.requires_grad]
    before = [one.detach().clone() for one in trained]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(20):  # a step that overflows is skipped, and the scale is halved
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(**{name: ids[None] for name, ids in row.items()}).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    moved = [not torch.equal(*pair) for pair in zip(trained, before)]
    rest = {str(one.dtype) for one in model.parameters() if not one.requires_grad}
    print(json.dumps([sorted({str(one.dtype) for one in trained}), sorted(rest), any(moved)]))
    sys.exit(0)

transformers.Trainer.train = train
runpy.run_path(sys.argv[1])["main"]("fp16")
"""


@pytest.mark.whole
@pytest.mark.builds
def test_what_a_case_trains_in_fp16_is_what_a_grad_scaler_takes(
    places: Paths, tmp_path: Path
) -> None:
    """It refuses gradients in fp16, so that such a training ends before anything is evaluated."""
    built = building.build(places, project.recipe(project.load(places), "4.50.0"))
    command: list[str | Path] = [built.python, "-c", SCALED, ROOT / "cases" / f"{CASE}.py"]
    done = finish(command, environ={**os.environ, "HF_HUB_OFFLINE": "1"}, folder=tmp_path)

    assert done.code == 0, done.err
    assert json.loads(done.out.splitlines()[-1]) == [["torch.float32"], ["torch.float16"], True]
