# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "XLNet loaded in bf16 or fp16 fails: its attention weights stay in fp32"
# reports = []
# found-by = "sweep"
# area = "loading"
# models = ["xlnet"]
# trigger = ["load", "forward"]
# symptom = ["error"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# cast-again = "Load in 16 bit, then call .to(dtype) on the loaded model."
# autocast = "Load in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# cast-again = "model.to(dtype)  # after from_pretrained"
# autocast = '''
# model = XLNetLMHeadModel.from_pretrained(name, torch_dtype=torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model.eval()(**inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "expected scalar type Float but found BFloat16",
#     "expected scalar type Float but found Half",
# ]
# where = "transformers.models.xlnet.modeling_xlnet:XLNetRelativeAttention.forward"
# ///
"""XLNet loaded in bf16 or fp16 must run a forward pass.

`XLNetRelativeAttention.__init__` makes its weights with `torch.FloatTensor`, which does not follow
the default dtype that `from_pretrained` sets, and the loaded values are cast to the dtype of the
weight that they replace, also those of a checkpoint in 16 bit. All other weights are in 16 bit, so
the first product of the attention raises. A loaded model that is cast as a whole computes.
"""

import os
import sys
import tempfile
from contextlib import nullcontext

import torch
from transformers import XLNetConfig, XLNetLMHeadModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "d_model": 32, "n_layer": 1, "n_head": 4, "d_inner": 64}
WORKAROUNDS = {"", "cast-again", "autocast"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    mixed = workaround == "autocast" and precision != "fp32"
    load_dtype = torch.float32 if mixed else dtype
    with tempfile.TemporaryDirectory() as folder:
        XLNetLMHeadModel(XLNetConfig(**SIZES)).to(load_dtype).save_pretrained(folder)
        model = XLNetLMHeadModel.from_pretrained(folder, torch_dtype=load_dtype).to(device)
    if workaround == "cast-again":
        model.to(dtype)
    kept = [name for name, weight in model.named_parameters() if weight.dtype != load_dtype]
    measured["parameters_in_fp32"] = len(kept)
    ids = torch.randint(5, 90, (1, 8), device=device)
    with torch.autocast(device, dtype) if mixed else nullcontext():
        logits = model.eval()(input_ids=ids).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
