# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.57"]
#
# [tool.repromatrix]
# title = "LongCat-Flash refuses its checkpoints: size mismatch of experts.gate_up_proj"
# reports = []
# found-by = "sweep"
# area = "loading"
# models = ["longcat-flash"]
# trigger = ["load"]
# symptom = ["error"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# pad-experts = "Add gate_proj and up_proj of zeros for the zero experts to the checkpoint."
#
# [tool.repromatrix.snippets]
# pad-experts = '''
# weights[f"model.layers.0.mlp.experts.{expert}.{part}.weight"] = zeros
# # for both parts, gate_proj and up_proj, of each zero expert of each layer'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0.0"]
# raises = "RuntimeError"
# match = "You set `ignore_mismatched_sizes` to `False`, thus raising an error. For details look at the above report!"
# where = "transformers.utils.loading_report:log_state_dict_report"
# ///
"""A checkpoint of LongCat-Flash with one entry per expert must be loaded.

Zero experts return their input and have no weights. Since 5.0 the experts are one tensor, and
`LongcatFlashExperts` makes `gate_up_proj` for the zero experts as well, `down_proj` for the others
alone: what is merged from a checkpoint is too short, and `from_pretrained` raises.
"""

import os
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LongcatFlashConfig, LongcatFlashForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "ffn_hidden_size": 32, "num_layers": 1}
HEADS = {"num_attention_heads": 2, "head_dim": 8, "q_lora_rank": 8, "kv_lora_rank": 8}
HEAD_SIZES = {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
EXPERTS = {"n_routed_experts": 4, "zero_expert_num": 2, "moe_topk": 2, "expert_ffn_hidden_size": 16}
SHAPES = {"gate_proj": (16, 32), "up_proj": (16, 32), "down_proj": (32, 16)}
WORKAROUNDS = {"", "pad-experts"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = LongcatFlashConfig(
        **SIZES, num_hidden_layers=2, **HEADS, **HEAD_SIZES, **EXPERTS, max_position_embeddings=64
    )
    weights = LongcatFlashForCausalLM(config).state_dict()
    weights = {name: weight for name, weight in weights.items() if "experts." not in name}
    for expert in range(6 if workaround == "pad-experts" else 4):
        for part in ("gate_proj", "up_proj") if expert >= 4 else SHAPES:
            value = 0.02 * torch.randn(SHAPES[part]) * (expert < 4)
            weights[f"model.layers.0.mlp.experts.{expert}.{part}.weight"] = value
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        weights = {name: weight.to(dtype).contiguous() for name, weight in weights.items()}
        save_file(weights, Path(folder) / "model.safetensors", metadata={"format": "pt"})
        model = LongcatFlashForCausalLM.from_pretrained(folder, torch_dtype=dtype)
    ids = torch.randint(5, 90, (1, 8), device=device)
    logits = model.to(device).eval()(input_ids=ids).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
