# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "scipy", "pillow"]
#
# [tool.repromatrix]
# title = "Training RT-DETR in fp16 mixed precision fails: 'cost matrix is infeasible'"
# reports = ["https://github.com/huggingface/transformers/issues/47000"]
# area = "overflow"
# models = ["rt-detr"]
# trigger = ["autocast"]
# symptom = ["error"]
# simulates = """
# The head's weights are set so that all logits are -20, as a trained detector gives for what it \
# excludes."""
#
# [tool.repromatrix.workarounds]
# fp32-logits = "Cast the logits to fp32 before the loss."
#
# [tool.repromatrix.snippets]
# fp32-logits = "logits = logits.float()  # before the loss"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<5.18"]
# precisions = ["fp16"]
# raises = "ValueError"
# match = "cost matrix is infeasible"
# where = "transformers.loss.loss_rt_detr:RTDetrHungarianMatcher.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/47730"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/47000"
# says = "The matcher crashes under mixed precision."
# when = ["transformers<5.14"]
# precisions = ["fp16"]
# outcome = "fails"
# ///
"""RT-DETR's matcher must return a match when the model is certain that there is no object.

In fp16 it raised until 5.17: the probability of an excluded class is exactly 0, the 1e-8 that
guards the logarithm is not representable in fp16, and SciPy refuses a matrix of infinite costs.
bf16 represents 1e-8 and passes. Only a head and the matcher are run.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import RTDetrConfig
from transformers.loss.loss_rt_detr import RTDetrHungarianMatcher

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
QUERIES, CLASSES = 6, 4
WORKAROUNDS = {"", "fp32-logits"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    matcher = RTDetrHungarianMatcher(RTDetrConfig())
    head = torch.nn.Linear(8, CLASSES, device=device)
    torch.nn.init.constant_(head.weight, -2.5)  # logits of -20: sure that it is none of them
    boxes = torch.rand(1, QUERIES, 4, device=device) / 4 + 0.25
    target = {"class_labels": torch.arange(CLASSES, device=device), "boxes": boxes[0, :CLASSES]}
    with torch.autocast(device, dtype) if precision != "fp32" else nullcontext():
        logits = head(torch.ones(1, QUERIES, 8, device=device))
        logits = logits.float() if workaround == "fp32-logits" else logits
        [(found, _)] = matcher({"logits": logits, "pred_boxes": boxes}, [target])
    assert found.tolist() == list(range(CLASSES)), "a box is not matched with itself"


if __name__ == "__main__":
    main(*sys.argv[1:])
