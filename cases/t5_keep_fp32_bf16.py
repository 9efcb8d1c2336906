# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "T5 loaded in bf16 keeps wo in fp32, which is meant for fp16 only"
# reports = ["https://github.com/huggingface/transformers/pull/43683"]
# area = "loading"
# models = "any"
# shown-with = ["t5"]
# concerns = """
# Every model with a list of modules to keep in fp32 in fp16 only, such as wo of T5; models
# without such a list cannot meet it."""
# trigger = ["load"]
# symptom = ["wrong-dtype"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# cast-after-load = "Load in fp32 and call .to(dtype) on the loaded model."
# cast-again = "Load in 16 bit, then call .to(dtype) on the loaded model."
#
# [tool.repromatrix.snippets]
# cast-after-load = '''
# model = T5EncoderModel.from_pretrained(name, torch_dtype=torch.float32)
# model.to(dtype)'''
# cast-again = "model.to(dtype)  # after from_pretrained"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.50,<4.51"]
# precisions = ["bf16"]
# raises = "AssertionError"
# match = "wo has the wrong dtype"
# where = "t5_keep_fp32_bf16:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/36722"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0,<5.1"]
# precisions = ["bf16"]
# raises = "AssertionError"
# match = "wo has the wrong dtype"
# where = "t5_keep_fp32_bf16:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/43683"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/43683"
# says = "The rewrite of the loader for 5.0 applied the flag for fp16 to bf16 too."
# when = ["transformers==5.0.0"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/43683"
# says = "Before that rewrite bf16 was not affected."
# when = ["transformers>=4.49,<5"]
# precisions = ["bf16"]
# outcome = "passes"
# ///
"""T5 loaded in bf16 must be all in bf16; loaded in fp16 it keeps `wo`, which overflows, in fp32.

In 4.50 and again in 5.0 the loader applied `_keep_in_fp32_modules` to bf16 as well. A later
`.to(dtype)` casts what the loader kept in fp32, in fp16 too.
"""

import os
import sys

import torch
from transformers import T5Config, T5EncoderModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
CONFIG = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "vocab_size": 99}
WORKAROUNDS = {"", "cast-after-load", "cast-again"}
measured: dict[str, float] = {}


def load(dtype: torch.dtype) -> T5EncoderModel:
    config = T5Config(**CONFIG)
    weights = {name: w.to(dtype) for name, w in T5EncoderModel(config).state_dict().items()}
    return T5EncoderModel.from_pretrained(
        None, config=config, state_dict=weights, torch_dtype=dtype
    )


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = load(torch.float32 if workaround == "cast-after-load" else dtype).to(device)
    if workaround:
        model.to(dtype)
    wo = model.encoder.block[0].layer[1].DenseReluDense.wo.weight
    measured["wo_in_fp32"] = float(wo.dtype == torch.float32)
    model(torch.tensor([[5, 6, 7]], device=device))
    fp32_is_meant = dtype != torch.bfloat16 and not workaround
    assert wo.dtype == (torch.float32 if fp32_is_meant else dtype), "wo has the wrong dtype"


if __name__ == "__main__":
    main(*sys.argv[1:])
