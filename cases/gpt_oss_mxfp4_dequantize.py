# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.55", "accelerate"]
#
# [tool.repromatrix]
# title = "gpt-oss loaded from MXFP4 in fp32 or fp16: the experts are unpacked to bf16"
# reports = ["https://github.com/openvinotoolkit/openvino.genai/pull/3783"]
# area = "quantization"
# models = ["gpt-oss"]
# trigger = ["load", "forward"]
# symptom = ["error", "wrong-dtype"]
#
# [tool.repromatrix.workarounds]
# cast-after-load = "Call .to(dtype) on the loaded model."
# load-bf16 = "Load in bf16."
#
# [tool.repromatrix.snippets]
# cast-after-load = "model.to(dtype)  # after from_pretrained"
# load-bf16 = "model = GptOssForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.55.1,<5.0.0"]
# precisions = ["fp32", "fp16"]
# raises = "RuntimeError"
# match = [
#     "to have the same dtype, but got",
#     "must have the same dtype, but got",
# ]
# where = "transformers.models.gpt_oss.modeling_gpt_oss:GptOssExperts.forward"
#
# [[tool.repromatrix.fails]]
# title = "transformers 4.55.0 unpacks MXFP4 on a GPU only: Using MXFP4 quantized models requires a GPU"
# when = ["transformers>=4.55.0,<4.55.1"]
# workarounds = ["*"]
# raises = "RuntimeError"
# match = "Using MXFP4 quantized models requires a GPU"
# where = "transformers.quantizers.quantizer_mxfp4:Mxfp4HfQuantizer.validate_environment"
#
# [[tool.repromatrix.fails]]
# when = ["torch>=2.9", "transformers>=5.0.0,<5.2.0"]
# precisions = ["fp32", "fp16"]
# raises = "RuntimeError"
# match = ["to have the same dtype, but got", "must have the same dtype, but got"]
# where = "transformers.integrations.moe:_grouped_linear"
#
# [[tool.repromatrix.fails]]
# when = ["torch<2.9", "transformers>=5.0.0,<5.3"]
# precisions = ["fp32", "fp16"]
# raises = "RuntimeError"
# match = ["to have the same dtype, but got", "must have the same dtype, but got"]
# where = "transformers.models.gpt_oss.modeling_gpt_oss:GptOssExperts.forward"
# note = """
# With torch 2.9 or newer the experts are multiplied in one product, whose input 5.2 casts; with an \
# older one each is multiplied alone."""
#
# [[tool.repromatrix.fails]]
# title = "gpt-oss loaded from MXFP4 in fp32 or fp16: the experts are unpacked to bf16"
# when = ["torch>=2.9", "transformers>=5.2.0,<5.3"]
# precisions = ["fp32", "fp16"]
# raises = "AssertionError"
# match = "a parameter or buffer is in another dtype"
# where = "gpt_oss_mxfp4_dequantize:main"
# symptom = ["wrong-dtype"]
# note = "Since #43977 the input of the experts is cast: they are multiplied in bf16, without an error."
#
# [[tool.repromatrix.fails]]
# title = "gpt-oss loaded from MXFP4 in fp32 or fp16: the experts are unpacked to bf16"
# when = ["transformers>=5.3,<5.23"]
# precisions = ["fp32", "fp16"]
# raises = "AssertionError"
# match = "a parameter or buffer is in another dtype"
# where = "gpt_oss_mxfp4_dequantize:main"
# symptom = ["wrong-dtype"]
# note = "Since #43977 the input of the experts is cast: they are multiplied in bf16, without an error."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/openvinotoolkit/openvino.genai/pull/3783"
# says = "The weights become bf16, while what was not quantised stays in fp32."
# when = ["transformers>=4.55,<5"]
# precisions = ["fp32"]
# outcome = "fails"
# ///
"""gpt-oss must be loaded from its MXFP4 checkpoint in the dtype that is asked for.

Where MXFP4 is not supported, as on a CPU, the loader unpacks the experts' weights. It makes them
bf16, whatever the dtype of the biases and of the hidden states. From 5.2 to 5.22 their input is cast,
and in place of an error there are products in bf16. In fp16 the model keeps its norms in fp32.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import GptOssConfig, GptOssForCausalLM, Mxfp4Config

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
WORKAROUNDS = {"", "cast-after-load", "load-bf16"}


def save_packed(folder: Path, dtype: torch.dtype, ids: torch.Tensor) -> None:
    model = GptOssForCausalLM(GptOssConfig(**SIZES, **HEADS, **EXPERTS)).to(dtype)
    assert model.to(ids.device)(input_ids=ids).logits.isfinite().all(), "non-finite logits"
    model.to(torch.bfloat16).save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    for name in [name for name in weights if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, inputs, outputs = weights.pop(name).shape
        groups = (experts, outputs, inputs // 32)
        weights[name + "_blocks"] = torch.randint(0, 256, (*groups, 16), dtype=torch.uint8)
        weights[name + "_scales"] = torch.full(groups, 122, dtype=torch.uint8)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4"}
    (folder / "config.json").write_text(json.dumps(config))


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device = os.environ.get("REPRO_DEVICE", "cpu")
    dtype = torch.bfloat16 if workaround == "load-bf16" else DTYPES[precision]
    ids = torch.tensor([[5, 6, 7]], device=device)
    unpacked = {"quantization_config": Mxfp4Config(dequantize=True)}
    with tempfile.TemporaryDirectory() as folder:
        save_packed(Path(folder), dtype, ids)
        model = GptOssForCausalLM.from_pretrained(folder, torch_dtype=dtype, **unpacked).to(device)
    if workaround == "cast-after-load":
        model.to(dtype)
    logits = model.eval()(input_ids=ids).logits
    assert logits.isfinite().all(), "non-finite logits"
    weights = {name: value for name, value in model.state_dict().items() if "norm" not in name}
    dtypes = {value.dtype for value in weights.values()}
    assert dtypes == {dtype}, "a parameter or buffer is in another dtype"


if __name__ == "__main__":
    main(*sys.argv[1:])
