# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.8"]
#
# [tool.repromatrix]
# title = "DeepSeek-V4 loaded in 16 bit rounds attention sinks and the mixing weights of its head"
# reports = ["https://github.com/huggingface/transformers/issues/46167"]
# area = "loading"
# models = ["deepseek_v4"]
# trigger = ["load", "save"]
# symptom = ["wrong-dtype"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# load-fp32 = "Load in fp32."
# restore = "Put the fp32 values of the checkpoint into the loaded model."
#
# [tool.repromatrix.snippets]
# load-fp32 = "model = DeepseekV4ForCausalLM.from_pretrained(name, torch_dtype=torch.float32)"
# restore = '''
# for name, parameter in model.named_parameters():
#     if "sinks" in name or "hc_head" in name:
#         parameter.data = exact[name]  # as in the checkpoint'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers<5.10"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "values that the checkpoint has in fp32 are rounded"
# where = "deepseek_v4_sinks_load:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/46198"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/46167"
# says = "Saving a model that was loaded in bf16 rounds tensors that the checkpoint has in fp32."
# when = ["transformers>=5.8,<5.10"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""What DeepSeek-V4's checkpoint keeps in fp32 on purpose must come back from a load and a save.

Its list of modules that stay in fp32 named those that mix the streams of a layer, but neither the
attention sinks nor the head that joins the streams. `values_changed` is the share of their values
that are not those of the checkpoint.
"""

import os
import sys
import tempfile

import torch
from safetensors.torch import load_file
from transformers import DeepseekV4Config, DeepseekV4ForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "moe_intermediate_size": 16, "q_lora_rank": 8}
HEADS = {"num_attention_heads": 4, "head_dim": 16, "o_groups": 2, "o_lora_rank": 8}
LAYERS = {"num_hidden_layers": 1, "layer_types": ["sliding_attention"], "mlp_layer_types": ["moe"]}
EXPERTS = {"n_routed_experts": 2, "num_experts_per_tok": 1, "n_shared_experts": 1}
WORKAROUNDS = {"", "load-fp32", "restore"}
measured: dict[str, float] = {}


def fragile(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if "sinks" in name or "hc_head" in name}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = DeepseekV4ForCausalLM(DeepseekV4Config(**SIZES, **HEADS, **LAYERS, **EXPERTS))
    exact = {name: p.normal_().clone() for name, p in fragile(model).items()}
    asked = torch.float32 if workaround == "load-fp32" else dtype
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        model = DeepseekV4ForCausalLM.from_pretrained(folder, torch_dtype=asked).to(device)
        if workaround == "restore":
            for name, parameter in fragile(model).items():
                parameter.data = exact[name].to(device)
        model.save_pretrained(folder, save_original_format=False)
        saved = load_file(f"{folder}/model.safetensors")
    changed = [(saved[name] != value).flatten() for name, value in exact.items()]
    measured["values_changed"] = torch.cat(changed).float().mean().item()
    assert measured["values_changed"] == 0, "values that the checkpoint has in fp32 are rounded"


if __name__ == "__main__":
    main(*sys.argv[1:])
