# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.6"]
#
# [tool.repromatrix]
# title = "SLANet in bf16 or fp16 fails: its head computes in fp32 with 16-bit weights"
# reports = []
# found-by = "sweep"
# area = "vision-tower"
# models = ["slanet"]
# same-code = ["slanext"]
# trigger = ["load", "cast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# head-fp32 = "Cast the head back to fp32: model.head.float()."
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# head-fp32 = "model.head.float()"
# autocast = '''
# model.to(torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model(pixel_values=pixels.to(torch.float32))'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.6.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "expected m1 and m2 to have the same dtype, but got: float != c10::BFloat16",
#     "expected m1 and m2 to have the same dtype, but got: float != c10::Half",
# ]
# where = "transformers.models.slanet.modeling_slanet:SLANetAttentionGRUCell.forward"
# ///
"""SLANet must recognise a table with 16-bit weights.

The head of the model decodes the structure of a table with a recurrent cell. It makes the first
state and the one-hot characters in fp32 and calls `hidden_states.float()` on what the backbone
returns, while the weights of the cell are in 16 bit: its first linear layer raises.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import SLANetConfig, SLANetForTableRecognition

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
STAGES = [[[3, 8 * 2**n, 16 * 2**n, 1 + (n > 0), False]] for n in range(5)]
BACKBONE = {"model_type": "pp_lcnet", "stem_channels": 8, "block_configs": STAGES}
BACKBONE |= {"out_features": ["stage2", "stage3", "stage4", "stage5"]}
HEAD = {"post_conv_out_channels": 16, "out_channels": 10, "hidden_size": 16, "max_text_length": 3}
WORKAROUNDS = {"", "head-fp32", "autocast"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    mixed = workaround == "autocast" and precision != "fp32"
    model = SLANetForTableRecognition(SLANetConfig(backbone_config=BACKBONE, **HEAD))
    model.to(device, torch.float32 if mixed else dtype).eval()
    if workaround == "head-fp32":
        model.head.float()
    pixels = torch.randn(1, 3, 64, 64, device=device, dtype=torch.float32 if mixed else dtype)
    with torch.autocast(device, dtype) if mixed else nullcontext():
        structure = model(pixel_values=pixels).last_hidden_state
    assert structure.isfinite().all(), "non-finite probabilities"


if __name__ == "__main__":
    main(*sys.argv[1:])
