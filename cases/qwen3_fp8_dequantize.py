# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.7", "accelerate"]
#
# [tool.repromatrix]
# title = "An FP8 checkpoint unpacked while loading: weights get the dtype of their scales"
# reports = ["https://github.com/huggingface/transformers/pull/45880"]
# area = "quantization"
# models = "any"
# shown-with = ["qwen3"]
# concerns = """
# Every block-wise FP8 checkpoint that is loaded in another dtype than its scales have, on a device
# without FP8 or with dequantize=True."""
# trigger = ["load", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-after-load = "Call .to(dtype) on the loaded model."
#
# [tool.repromatrix.snippets]
# cast-after-load = "model.to(dtype)  # after from_pretrained"
#
# [[tool.repromatrix.fails]]
# when = ["transformers<5.10"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "to have the same dtype, but got",
#     "must have the same dtype, but got",
# ]
# where = "transformers.models.qwen3.modeling_qwen3:Qwen3Attention.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/45634"
#
# [[tool.repromatrix.fails]]
# title = "FP8 checkpoints without experts cannot be loaded in 5.16: 'NoneType' object has no attribute 'get'"
# when = ["transformers>=5.16,<5.17"]
# workarounds = ["", "cast-after-load"]
# raises = "AttributeError"
# match = "'NoneType' object has no attribute 'get'"
# where = "transformers.quantizers.quantizer_finegrained_fp8:FineGrainedFP8HfQuantizer.update_tp_plan"
# trigger = ["load"]
# note = "Another bug: 5.16 loads no FP8 checkpoint of a model without experts (#48352 names it)."
# ///
"""An FP8 checkpoint must be loaded in the dtype that is asked for, where its weights are unpacked.

Where FP8 is not supported, as on a CPU, the loader multiplies the weights with their scales. The
product has the dtype of the scales, fp32 in many checkpoints, whatever the rest of the model has.
Before 5.7 no FP8 checkpoint is loaded without triton, which is not installed here.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3Config, Qwen3ForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}
HOW = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [16, 16]}
WORKAROUNDS = {"", "cast-after-load"}


def save_packed(folder: Path, dtype: torch.dtype) -> None:
    Qwen3ForCausalLM(Qwen3Config(**SIZES, **HEADS)).to(dtype).save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    for name in [name for name in weights if "_proj.weight" in name]:
        rows, columns = weights[name].shape
        weights[name] = weights[name].to(torch.float8_e4m3fn)
        weights[name + "_scale_inv"] = torch.ones(rows // 16, columns // 16)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": HOW}))


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    with tempfile.TemporaryDirectory() as folder:
        save_packed(Path(folder), dtype)
        model = Qwen3ForCausalLM.from_pretrained(folder, torch_dtype=dtype).to(device)
    if workaround == "cast-after-load":
        model.to(dtype)
    logits = model.eval()(input_ids=torch.tensor([[5, 6, 7]], device=device)).logits
    assert logits.isfinite().all(), "non-finite logits"
    dtypes = {value.dtype for value in model.state_dict().values() if value.is_floating_point()}
    assert dtypes == {dtype}, "a parameter or buffer is in another dtype"


if __name__ == "__main__":
    main(*sys.argv[1:])
