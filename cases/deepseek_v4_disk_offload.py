# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.8", "accelerate>=1.13"]
#
# [tool.repromatrix]
# title = "DeepSeek-V4 with buffers offloaded to disk reads its table of experts in bf16: wrong experts"
# reports = ["https://github.com/huggingface/transformers/pull/46849"]
# area = "loading"
# models = ["deepseek_v4"]
# trigger = ["load"]
# symptom = ["wrong-numbers"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# cpu = "Load the model to memory instead of offloading it to disk."
# keep-buffers = "Leave offload_buffers at False."
#
# [tool.repromatrix.snippets]
# cpu = 'places["model.layers"] = "cpu"  # the device_map'
# keep-buffers = '''
# model = DeepseekV4ForCausalLM.from_pretrained(
#     name, dtype=dtype, device_map=places, offload_buffers=False
# )'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.8,<5.13"]
# precisions = ["bf16"]
# raises = "AssertionError"
# match = "tokens are sent to other experts than the checkpoint says"
# where = "deepseek_v4_disk_offload:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/46849"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/46849"
# says = "The table of experts is read in the wrong precision, and tokens go to wrong experts."
# when = ["transformers>=5.8,<5.13"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""A tensor read back from disk must be what was saved, whatever the dtype of loading.

The index of what lies on disk named the dtype of loading for every tensor, and not that which the
model has for it: DeepSeek-V4's table from tokens to experts, in int64, passes through bf16, which
holds whole numbers up to 256; fp16 does up to 2048. The table is a buffer, which goes to disk with
offload_buffers=True only. The model has 400 experts here, and only its router is run.
"""

import os
import sys
import tempfile

import torch
from accelerate.utils import align_module_device
from transformers import DeepseekV4Config, DeepseekV4ForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "moe_intermediate_size": 8, "q_lora_rank": 8}
HEADS = {"num_attention_heads": 4, "head_dim": 16, "o_groups": 2, "o_lora_rank": 8}
LAYERS = {"num_hidden_layers": 1, "layer_types": ["sliding_attention"]}
LAYERS |= {"mlp_layer_types": ["hash_moe"]}
EXPERTS = {"n_routed_experts": 400, "num_experts_per_tok": 2, "n_shared_experts": 1}
WORKAROUNDS = {"", "cpu", "keep-buffers"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    dtype = DTYPES[precision]
    saved = DeepseekV4ForCausalLM(DeepseekV4Config(**SIZES, **HEADS, **LAYERS, **EXPERTS))
    table = torch.randint(0, 399, (99, 2))
    saved.model.layers[0].mlp.gate.tid2eid.copy_(table)
    places = {f"model.{name}": "cpu" for name, _ in saved.model.named_children()}
    places |= {"lm_head": "cpu", "model.layers": "cpu" if workaround == "cpu" else "disk"}
    offload: dict[str, object] = {"offload_buffers": workaround != "keep-buffers"}
    with tempfile.TemporaryDirectory() as folder:
        saved.save_pretrained(folder)
        offload["offload_folder"] = f"{folder}/offloaded"
        model = DeepseekV4ForCausalLM.from_pretrained(
            folder, dtype=dtype, device_map=places, **offload
        )
        gate = model.model.layers[0].mlp.gate
        with align_module_device(gate):
            states = torch.randn(99, 32, dtype=gate.weight.dtype)
            *_, chosen = gate(states, torch.arange(99))
    measured["tokens_changed"] = (chosen != table).any(-1).double().mean().item()
    assert measured["tokens_changed"] < 0.01, (
        "tokens are sent to other experts than the checkpoint says"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
