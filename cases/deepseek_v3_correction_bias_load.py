# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.51"]
#
# [tool.repromatrix]
# title = "DeepSeek-V3 in 16 bit rounds e_score_correction_bias and routes to other experts"
# reports = [
#     "https://github.com/huggingface/transformers/pull/42580",
#     "https://github.com/intel/auto-round/issues/845",
# ]
# area = "moe-routing"
# models = ["deepseek-v3"]
# trigger = ["load", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# load-fp32 = "Load in fp32 and run the model under torch.autocast."
# restore-bias = "Copy the fp32 bias from the checkpoint into the loaded model."
#
# [tool.repromatrix.snippets]
# load-fp32 = '''
# model = DeepseekV3ForCausalLM.from_pretrained(name, torch_dtype=torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model(ids)'''
# restore-bias = "moe.gate.e_score_correction_bias = restored  # in fp32, as in the checkpoint"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.51,<5.0"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "other experts are chosen than with the bias of the checkpoint"
# where = "deepseek_v3_correction_bias_load:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/42580"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/42580"
# says = "from_pretrained does not keep the fp32 of this bias."
# when = ["transformers<5.0"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""DeepSeek-V3 loaded in 16 bit must route tokens to the same experts as with the fp32 bias.

`e_score_correction_bias` is in fp32 in checkpoints, with close values far from zero, but 4.x loads
it in the dtype of the model. Here the values lie between 6.8 and 7.1, where bf16 has steps of 1/32.
`experts_changed` is the share of choices of the gate that differ from those with the bias of the
checkpoint put into the same model, as for the logits. Since 5.0 the bias stays in fp32.
"""

import os
import sys
import tempfile
from contextlib import nullcontext

import torch
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "q_lora_rank": 8, "kv_lora_rank": 8}
HEAD_SIZES = {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
EXPERTS = {"n_routed_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 8}
GROUPS = {"n_group": 1, "topk_group": 1, "first_k_dense_replace": 0, "n_shared_experts": 1}
WEIGHTS = {"initializer_range": 0.1}  # with 16 features the default hides what experts add
WORKAROUNDS = {"", "load-fp32", "restore-bias"}
measured: dict[str, float] = {}


def integers(values: tuple | torch.Tensor) -> list[torch.Tensor]:
    return [value for value in values if value.dtype == torch.int64]


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = DeepseekV3Config(**SIZES, **HEADS, **HEAD_SIZES, **EXPERTS, **GROUPS, **WEIGHTS)
    model, bias = DeepseekV3ForCausalLM(config), torch.linspace(6.8, 7.1, 64)[torch.randperm(64)]
    model.model.layers[0].mlp.gate.e_score_correction_bias.copy_(bias)
    load_fp32 = workaround == "load-fp32"
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded_dtype = torch.float32 if load_fp32 else dtype
        model = DeepseekV3ForCausalLM.from_pretrained(folder, torch_dtype=loaded_dtype)
    moe = model.to(device).eval().model.layers[0].mlp
    restored, chosen, choices = moe.gate.e_score_correction_bias.float().copy_(bias), [], []
    # Until 4.57 and of late the gate returns its choice; at 5.0 the block makes it of the logits.
    moe.gate.register_forward_hook(lambda _, __, out: chosen.extend(integers(out)))
    moe.experts.register_forward_pre_hook(lambda _, args: chosen.extend(integers(args)))
    for restore in (workaround == "restore-bias", True):
        if restore:
            moe.gate.e_score_correction_bias = restored
        with torch.autocast(device, dtype) if load_fp32 else nullcontext():
            found = model(torch.arange(256, device=device)[None] % 99).logits.float()
        choices.append((chosen[-1], found))
    (used, found), (meant, exact) = choices
    kept = (used[:, :, None] == meant[:, None]).any(-1).float().mean().item()
    measured["experts_changed"] = 1 - kept
    measured["logits_relative_error"] = ((found - exact).norm() / exact.norm()).item()
    measured["tokens_changed"] = (
        (found.max(-1).indices != exact.max(-1).indices).float().mean().item()
    )
    assert measured["experts_changed"] == 0, (
        "other experts are chosen than with the bias of the checkpoint"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
