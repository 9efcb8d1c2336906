# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "BLIP-2 loaded in fp16 or bf16: mixed dtype error in a layer norm of the Q-Former"
# reports = [
#     "https://github.com/huggingface/transformers/issues/37103",
#     "https://github.com/huggingface/transformers/pull/37068",
# ]
# area = "loading"
# models = ["blip2"]
# trigger = ["load", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-after-load = "Load in fp32 and call .to(dtype) (.half() for fp16) on the loaded model."
# cast-again = "Load in 16 bit, then call .to(dtype) on the loaded model."
# autocast = "Load in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# cast-after-load = '''
# model = Blip2ForConditionalGeneration.from_pretrained(name, torch_dtype=torch.float32)
# model.to(dtype)'''
# cast-again = "model.to(dtype)  # after from_pretrained"
# autocast = '''
# model = Blip2ForConditionalGeneration.from_pretrained(name, torch_dtype=torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model.eval()(**inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.50,<4.50.3"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "mixed dtype (CPU): expect parameter to have scalar type of Float",
#     "expected scalar type Float but found Half",
#     "expected scalar type Float but found BFloat16",
# ]
# where = "transformers.models.blip_2.modeling_blip_2:Blip2QFormerModel.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/37068"
# note = "Reported for float16; bfloat16 fails in the same way."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/37103"
# says = "The documented float16 example fails on 4.50.0."
# when = ["transformers==4.50.0"]
# precisions = ["fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/37068"
# says = "Before the list of fp32 modules was honoured no release showed the error."
# when = ["transformers>=4.49,<4.50"]
# precisions = ["fp16"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/37068"
# says = "Casting the inputs and keeping the Q-Former in fp32 fixes it, from 4.50.3 on."
# when = ["transformers>=4.50.3"]
# precisions = ["fp16"]
# outcome = "passes"
# ///
"""BLIP-2 loaded in fp16 or bf16 must run a forward pass on an image.

It failed from 4.50.0 to 4.50.2: `from_pretrained` began to honour `_keep_in_fp32_modules`, which
named the query tokens but not the Q-Former, so the first layer norm of the Q-Former got an fp32
input with 16-bit weights. A model that is loaded in fp32 and cast afterwards is not affected.
"""

import os
import sys
import tempfile
from contextlib import nullcontext

import torch
from transformers import Blip2Config, Blip2ForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
IMAGE_TOKEN, QUERIES = 98, 4
LAYERS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
VISION = {**LAYERS, "intermediate_size": 32, "image_size": 28, "patch_size": 14}
QFORMER = {**LAYERS, "intermediate_size": 32, "encoder_hidden_size": 16, "vocab_size": 99}
TEXT = {**LAYERS, "model_type": "opt", "ffn_dim": 32, "word_embed_proj_dim": 16, "vocab_size": 99}
WORKAROUNDS = {"", "cast-after-load", "cast-again", "autocast"}
measured: dict[str, float] = {}


def save_tiny(folder: str) -> None:
    config = Blip2Config(
        vision_config=VISION,
        qformer_config=QFORMER,
        text_config=TEXT,
        num_query_tokens=QUERIES,
        image_token_index=IMAGE_TOKEN,
    )
    Blip2ForConditionalGeneration(config).save_pretrained(folder)


def share_in_fp32(model: torch.nn.Module) -> float:
    in_fp32 = [p.numel() * (p.dtype == torch.float32) for p in model.parameters()]
    return sum(in_fp32) / sum(p.numel() for p in model.parameters())


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    load_dtype = torch.float32 if workaround in {"cast-after-load", "autocast"} else dtype
    with tempfile.TemporaryDirectory() as folder:
        save_tiny(folder)
        model = Blip2ForConditionalGeneration.from_pretrained(folder, torch_dtype=load_dtype)
    if workaround in {"cast-after-load", "cast-again"}:
        model.to(dtype)
    measured["share_in_fp32"] = share_in_fp32(model)
    ids = torch.tensor([[IMAGE_TOKEN] * QUERIES + [5, 6, 7]], device=device)
    pixels = torch.randn(1, 3, 28, 28, device=device, dtype=dtype)
    with torch.autocast(device, dtype) if workaround == "autocast" else nullcontext():
        logits = model.to(device).eval()(pixel_values=pixels, input_ids=ids).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
