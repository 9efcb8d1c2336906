# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.56"]
#
# [tool.repromatrix]
# title = "The text model of GLM-4.5V, saved alone by transformers 4, has random experts since 5.0"
# reports = []
# found-by = "sweep"
# area = "loading"
# models = ["glm4v-moe"]
# trigger = ["load"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# fuse-experts = "Join the experts of the checkpoint into gate_up_proj and down_proj before loading."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0.0"]
# raises = "AssertionError"
# match = "the loaded model computes something else"
# where = "glm4v_moe_text_experts_load:main"
#
# [[tool.repromatrix.fails]]
# title = "Experts in fp32 on a CPU in 5.0 with torch 2.10: expected data_ptr to be aligned to 16 bytes"
# when = ["transformers>=5.0.0,<5.1", "torch>=2.10,<2.11"]
# precisions = ["fp32"]
# workarounds = ["fuse-experts"]
# raises = "RuntimeError"
# match = "expected data_ptr to be aligned to 16 bytes"
# note = "Grouped products want aligned weights, which those mapped from a file need not be."
# ///
"""A checkpoint of GLM-4.5V's text model with one entry per expert must be loaded.

Since 5.0 the experts of a layer are two tensors. Loading merges the experts of older checkpoints for
the type `glm4v_moe`, not for `glm4v_moe_text`, which the text model has where it is saved alone: it
warns of weights that are missing, and computes with random ones.
"""

import os
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers.models.glm4v_moe.configuration_glm4v_moe import Glm4vMoeTextConfig
from transformers.models.glm4v_moe.modeling_glm4v_moe import Glm4vMoeTextModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
EXPERTS = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
OTHERS = {"first_k_dense_replace": 0, "initializer_range": 0.2}
OTHERS |= {"rope_scaling": {"rope_type": "default", "mrope_section": [1, 1, 0]}}
WORKAROUNDS = {"", "fuse-experts"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Glm4vMoeTextConfig(**SIZES, **HEADS, **EXPERTS, **OTHERS)
    model = Glm4vMoeTextModel(config).to(dtype).eval()
    weights = model.state_dict()
    where = "layers.0.mlp.experts"
    if f"{where}.gate_up_proj" in weights and workaround != "fuse-experts":
        both, down = (weights.pop(f"{where}.{name}") for name in ("gate_up_proj", "down_proj"))
        for at in range(len(down)):
            parts = {"gate_proj": both[at, :16], "up_proj": both[at, 16:], "down_proj": down[at]}
            weights |= {f"{where}.{at}.{name}.weight": part for name, part in parts.items()}
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        weights = {name: weight.clone() for name, weight in weights.items()}
        save_file(weights, Path(folder) / "model.safetensors", metadata={"format": "pt"})
        loaded = Glm4vMoeTextModel.from_pretrained(folder, torch_dtype=dtype)
    ids = torch.randint(5, 90, (1, 8), device=device)
    with torch.no_grad():
        right, got = (each.to(device)(ids)[0].float() for each in (model, loaded.eval()))
    measured["output_relative_error"] = float((got - right).norm() / right.norm())
    assert measured["output_relative_error"] < 0.05, "the loaded model computes something else"


if __name__ == "__main__":
    main(*sys.argv[1:])
