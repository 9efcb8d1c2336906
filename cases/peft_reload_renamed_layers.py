# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "A saved LoRA adapter loses layers once loaded: peft renames keys that are right"
# reports = []
# found-by = "sweep"
# area = "peft"
# models = "any"
# shown-with = ["maskformer"]
# concerns = """
# Models of which a layer has a name that the checkpoint conversion of transformers 5 changes: the
# Swin backbone of maskformer, and layers of laguna, inkling2, mistral_large4 and unlimited_ocr."""
# trigger = ["adapter"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# by-hand = "Add a new adapter and load the saved file into it with load_state_dict."
# decoder-only = "Adapt no layer of the Swin backbone, of which the names are changed."
#
# [tool.repromatrix.snippets]
# by-hand = '''
# model = get_peft_model(base, config)
# saved = load_file(f"{folder}/adapter_model.safetensors")
# named = {key.replace(".weight", ".default.weight"): saved[key] for key in saved}
# model.load_state_dict(named, strict=False)'''
# decoder-only = 'config = LoraConfig(target_modules=r".*decoder\.layers.*\.fc[12]")'
#
# [[tool.repromatrix.fails]]
# at-fault = "peft"
# when = ["transformers>=5.9.0"]
# raises = "AssertionError"
# match = "the loaded adapter computes something else"
# where = "peft_reload_renamed_layers:main"
# ///
"""A LoRA adapter must compute the same after it is saved and loaded onto the same model.

`convert_peft_adapter_state_dict_for_transformers` applies the renamings for checkpoints of older
releases to every adapter, also to one whose keys fit the model already. MaskFormer's Swin backbone
kept the names that the mapping of Swin replaces, so none of its keys is found; these layers get new
random matrices and a warning.
"""

import copy
import os
import sys
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import DetrConfig, MaskFormerConfig, MaskFormerModel, SwinConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_layers": 1}
WIDTHS = {"d_model": 32, "decoder_ffn_dim": 32, "decoder_layers": 1, "num_queries": 4}
SWIN = {"image_size": 64, "patch_size": 4, "embed_dim": 8, "window_size": 2, "depths": [1] * 4}
WORKAROUNDS = {"", "by-hand", "decoder-only"}
measured: dict[str, float] = {}


def build() -> torch.nn.Module:
    swin = SwinConfig(**SWIN, num_heads=[1] * 4, out_features=[f"stage{at}" for at in range(1, 5)])
    parts = {"backbone_config": swin, "decoder_config": DetrConfig(**HEADS, **WIDTHS)}
    config = MaskFormerConfig(**parts, fpn_feature_size=32, mask_feature_size=32)
    return MaskFormerModel(config).eval()


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = build().to(device, dtype)
    fresh = copy.deepcopy(model)
    targets = r".*decoder\.layers.*\.fc[12]" if workaround == "decoder-only" else "all-linear"
    config = LoraConfig(r=4, target_modules=targets, init_lora_weights=False)
    adapted = get_peft_model(model, config).eval()
    with tempfile.TemporaryDirectory() as folder:
        adapted.save_pretrained(folder)
        if workaround == "by-hand":
            loaded = get_peft_model(fresh, config).eval()
            saved = load_file(f"{folder}/adapter_model.safetensors", device)
            named = {key.replace(".weight", ".default.weight"): saved[key] for key in saved}
            loaded.load_state_dict(named, strict=False)
        else:
            loaded = PeftModel.from_pretrained(fresh, folder).eval()
    pixels = torch.randn(1, 3, 64, 64, device=device).to(dtype)
    with torch.no_grad():
        wanted, found = (
            one(pixels).transformer_decoder_last_hidden_state.float() for one in (adapted, loaded)
        )
    measured["output_relative_error"] = float((found - wanted).norm() / wanted.norm())
    assert measured["output_relative_error"] < 0.03, "the loaded adapter computes something else"


if __name__ == "__main__":
    main(*sys.argv[1:])
