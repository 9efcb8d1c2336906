# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.8"]
#
# [tool.repromatrix]
# title = "DeepSeek-V4 loaded in 16 bit: norms that are kept in fp32 return fp32"
# reports = []
# found-by = "measurement"
# area = "loading"
# models = ["deepseek_v4"]
# trigger = ["load", "forward"]
# symptom = ["error"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# cast-again = "Load in 16 bit, then call .to(dtype) on the loaded model."
# cast-norms = "Cast the weights of the norms alone to the dtype of the model after loading."
#
# [tool.repromatrix.snippets]
# cast-again = "model.to(dtype)  # after from_pretrained"
# cast-norms = '''
# for name, parameter in model.named_parameters():
#     if "norm" in name:
#         parameter.data = parameter.to(dtype)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.8.1,<5.20"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "to have the same dtype, but got",
#     "must have the same dtype, but got",
# ]
# where = "transformers.models.deepseek_v4.modeling_deepseek_v4:DeepseekV4Attention.forward"
#
# [[tool.repromatrix.fails]]
# title = "Experts on a CPU with torch 2.8, until 5.12: Could not run 'aten::_grouped_mm'"
# when = ["torch>=2.8,<2.9", "transformers>=5.8,<5.8.1"]
# raises = "NotImplementedError"
# match = "Could not run 'aten::_grouped_mm' with arguments from the 'CPU' backend"
# where = "transformers.integrations.moe:_grouped_mm"
# note = "torch 2.8 has this product and no kernel of it for a CPU; 5.13 does without."
#
# [[tool.repromatrix.fails]]
# title = "Experts on a CPU with torch 2.8, until 5.12: Could not run 'aten::_grouped_mm'"
# when = ["torch>=2.8,<2.9", "transformers>=5.8.1,<5.13"]
# precisions = ["fp32"]
# raises = "NotImplementedError"
# match = "Could not run 'aten::_grouped_mm' with arguments from the 'CPU' backend"
# where = "transformers.integrations.moe:_grouped_mm"
# ///
"""DeepSeek-V4 loaded in fp16 or bf16 must run a forward pass.

Since 5.8.1 loading keeps the weights of its norms in fp32. A norm casts its input back to 16 bit and
multiplies it with its weight afterwards, so that what it returns is fp32; the next layer is in 16
bit.
"""

import os
import sys
import tempfile

import torch
from transformers import DeepseekV4Config, DeepseekV4ForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "moe_intermediate_size": 16, "q_lora_rank": 8}
HEADS = {"num_attention_heads": 4, "head_dim": 16, "o_groups": 2, "o_lora_rank": 8}
LAYERS = {"num_hidden_layers": 1, "layer_types": ["sliding_attention"], "mlp_layer_types": ["moe"]}
EXPERTS = {"n_routed_experts": 2, "num_experts_per_tok": 1, "n_shared_experts": 1}
WORKAROUNDS = {"", "cast-again", "cast-norms"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    with tempfile.TemporaryDirectory() as folder:
        config = DeepseekV4Config(**SIZES, **HEADS, **LAYERS, **EXPERTS)
        DeepseekV4ForCausalLM(config).save_pretrained(folder)
        model = DeepseekV4ForCausalLM.from_pretrained(folder, torch_dtype=dtype).to(device).eval()
    if workaround == "cast-again":
        model.to(dtype)
    for name, parameter in model.named_parameters():
        if workaround == "cast-norms" and "norm" in name:
            parameter.data = parameter.to(dtype)
    logits = model(torch.arange(8, device=device)[None]).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
