# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "LoRA on the attention of WavLM does nothing until it is merged"
# reports = ["https://github.com/huggingface/transformers/pull/48773"]
# found-by = "sweep"
# area = "peft"
# models = ["wavlm"]
# trigger = ["adapter"]
# symptom = ["wrong-numbers", "not-trained"]
#
# [tool.repromatrix.workarounds]
# feed-forward = "Adapt the feed-forward layers alone, intermediate_dense and output_dense."
#
# [tool.repromatrix.snippets]
# feed-forward = 'lora = LoraConfig(target_modules=["intermediate_dense", "output_dense"])'
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# raises = "AssertionError"
# match = "the merged adapter computes something else"
# where = "wavlm_lora_attention:main"
# ///
"""A LoRA adapter must compute the same before and after it is merged.

`torch_multi_head_self_attention` of WavLM hands the weights of its four projections to
`F.multi_head_attention_forward` and never calls the layers. Their adapters have no effect and no
gradient, without a warning; a merge then adds what nothing has computed with.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import WavLMConfig, WavLMModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_buckets": 32, "max_bucket_distance": 80}
CONVOLUTIONS = {"conv_dim": (16, 16), "conv_kernel": (10, 8), "conv_stride": (5, 4)}
POSITIONS = {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2}
ATTENTION = ["q_proj", "k_proj", "v_proj", "out_proj"]
WORKAROUNDS = {"", "feed-forward"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = WavLMConfig(**SIZES, **HEADS, **CONVOLUTIONS, **POSITIONS, num_feat_extract_layers=2)
    model = WavLMModel(config).to(device, dtype)
    names = ["intermediate_dense", "output_dense"] if workaround == "feed-forward" else ATTENTION
    lora = LoraConfig(r=4, lora_alpha=64, target_modules=names, init_lora_weights=False)
    model = get_peft_model(model, lora).eval()
    wave = torch.randn(1, 800, device=device, dtype=dtype)
    with torch.no_grad():
        before = model(input_values=wave).last_hidden_state.float()
        after = model.merge_and_unload()(input_values=wave).last_hidden_state.float()
    measured["output_relative_error"] = ((after - before).norm() / after.norm()).item()
    assert measured["output_relative_error"] < 0.1, "the merged adapter computes something else"


if __name__ == "__main__":
    main(*sys.argv[1:])
