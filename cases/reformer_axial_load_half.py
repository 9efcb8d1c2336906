# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Reformer loaded in bf16 or fp16 fails: axial position embeddings stay in fp32"
# reports = []
# found-by = "sweep"
# area = "loading"
# models = ["reformer"]
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
# model = ReformerForMaskedLM.from_pretrained(name, torch_dtype=torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model.eval()(**inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "mixed dtype (CPU): expect parameter to have scalar type of Float",
#     "value cannot be converted to type at::Half without overflow",
# ]
# where = [
#     "transformers.models.reformer.modeling_reformer:ReformerAttention.forward",
#     "transformers.initialization:constant_",
# ]
# note = """
# In fp16 releases from 5.0 on fill a buffer for fp32 with -1e9: torch 2.6 refuses that, later ones \
# make it infinite and fail where the others do."""
# ///
"""Reformer loaded in bf16 or fp16 must run a forward pass.

`AxialPositionEmbeddings.__init__` makes its weights with `dtype=torch.float32`, so they do not
follow the default dtype that `from_pretrained` sets, and the loaded values are cast to the dtype of
the weights that they replace. Added to the embeddings they upcast the hidden states, and the first
layer norm raises. A loaded model that is cast as a whole computes.
"""

import os
import sys
import tempfile
from contextlib import nullcontext

import torch
from transformers import ReformerConfig, ReformerForMaskedLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "attention_head_size": 8, "feed_forward_size": 32}
LAYERS = {"attn_layers": ["local"], "local_attn_chunk_length": 4, "num_attention_heads": 2}
POSITIONS = {"axial_pos_shape": (4, 4), "axial_pos_embds_dim": (8, 24)}
WORKAROUNDS = {"", "cast-again", "autocast"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    mixed = workaround == "autocast" and precision != "fp32"
    load_dtype = torch.float32 if mixed else dtype
    config = ReformerConfig(**SIZES, **LAYERS, **POSITIONS, max_position_embeddings=16)
    with tempfile.TemporaryDirectory() as folder:
        ReformerForMaskedLM(config).save_pretrained(folder)
        model = ReformerForMaskedLM.from_pretrained(folder, torch_dtype=load_dtype).to(device)
    if workaround == "cast-again":
        model.to(dtype)
    kept = [name for name, weight in model.named_parameters() if weight.dtype != load_dtype]
    measured["parameters_in_fp32"] = len(kept)
    ids = torch.randint(5, 90, (1, 16), device=device)
    with torch.autocast(device, dtype) if mixed else nullcontext():
        logits = model.eval()(input_ids=ids).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
