# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.57", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "LoRA on the routers of LongCat-Flash does nothing until it is merged"
# reports = []
# found-by = "sweep"
# area = "peft"
# models = ["longcat-flash"]
# trigger = ["adapter"]
# symptom = ["wrong-numbers", "not-trained"]
#
# [tool.repromatrix.workarounds]
# no-router = "Leave classifier out of target_modules."
#
# [tool.repromatrix.snippets]
# no-router = 'lora = LoraConfig(target_modules=["q_a_proj"])  # without classifier'
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.57.1"]
# raises = "AssertionError"
# match = "the merged adapter computes something else"
# where = "longcat_flash_lora_router:main"
# ///
"""A LoRA adapter must compute the same before and after it is merged.

`LongcatFlashTopkRouter.forward` passes `self.classifier.weight`, upcast to fp32, to `F.linear`
and never calls the layer. An adapter there, which "all-linear" makes too, has no effect and no
gradient, without a warning; after a merge tokens are routed otherwise than in training.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import LongcatFlashConfig, LongcatFlashForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "ffn_hidden_size": 64, "num_layers": 1}
HEADS = {"num_attention_heads": 4, "q_lora_rank": 8, "kv_lora_rank": 8, "v_head_dim": 8}
ROTARY = {"qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "head_dim": 8}
EXPERTS = {"n_routed_experts": 4, "zero_expert_num": 0, "moe_topk": 4}
WORKAROUNDS = {"", "no-router"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = LongcatFlashConfig(
        **SIZES, **HEADS, **ROTARY, **EXPERTS, expert_ffn_hidden_size=32, initializer_range=0.2
    )
    model = LongcatFlashForCausalLM(config).to(device, dtype)
    names = ["q_a_proj"] if workaround == "no-router" else ["q_a_proj", "classifier"]
    lora = LoraConfig(r=4, lora_alpha=64, target_modules=names, init_lora_weights=False)
    model = get_peft_model(model, lora).eval()
    ids = torch.arange(5, 21, device=device)[None]
    with torch.no_grad():
        before = model(input_ids=ids).logits.float()
        after = model.merge_and_unload()(input_ids=ids).logits.float()
    measured["logits_relative_error"] = ((after - before).norm() / after.norm()).item()
    assert measured["logits_relative_error"] < 0.1, "the merged adapter computes something else"


if __name__ == "__main__":
    main(*sys.argv[1:])
