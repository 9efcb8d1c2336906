# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.5", "accelerate"]
#
# [tool.repromatrix]
# title = "Gemma 4 with a quantised vision tower: pixels are cast to whole numbers"
# reports = ["https://github.com/huggingface/transformers/pull/46933"]
# area = "quantization"
# models = ["gemma4"]
# same-code = ["gemma4-unified"]
# trigger = ["forward"]
# symptom = ["error", "wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# leave-out = "Do not quantise the layer that embeds the patches (modules_to_not_convert)."
#
# [tool.repromatrix.snippets]
# leave-out = '''
# # kept names patch_embedder.input_proj, too
# config["quantization_config"]["modules_to_not_convert"] = kept'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers<5.13"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "to have the same dtype, but got",
#     "must have the same dtype, but got",
# ]
# where = "transformers.models.gemma4.modeling_gemma4:Gemma4ClippableLinear.forward"
# symptom = ["error"]
# fixed-by = "https://github.com/huggingface/transformers/pull/46933"
#
# [[tool.repromatrix.fails]]
# title = "Gemma 4 with a quantised vision tower: pixels are cast to whole numbers"
# when = ["transformers<5.13"]
# precisions = ["fp32"]
# raises = "AssertionError"
# match = "the pixels do not reach the vision tower"
# where = "gemma4_quantised_pixels:main"
# symptom = ["wrong-numbers"]
# fixed-by = "https://github.com/huggingface/transformers/pull/46933"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/46933"
# says = "Pixels must not be cast to the dtype of quantised weights, which is not a floating one."
# when = ["transformers>=5.5,<5.13"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""A quantised vision tower of Gemma 4 must see the same image as one that is not quantised.

The patch embedding casts pixels to the dtype of its weight. Of quantised weights this is the dtype
in which they are packed, here the bytes of BitNet, in which pixels between -1 and 1 are lost. What
the layer makes of whole numbers is fp32, which a model in 16 bit refuses.
`output_relative_error` compares with the same weights unpacked; a layer that quantises what it is
given to 8 bit, as BitNet's do, adds an error of its own.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import Gemma4VisionConfig, Gemma4VisionModel
from transformers.integrations.bitnet import pack_weights

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "head_dim": 16}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "patch_size": 4}
PATCHES = "patch_embedder.input_proj"
WORKAROUNDS = {"", "leave-out"}
measured: dict[str, float] = {}


def save_packed(model: torch.nn.Module, folder: Path, kept: list[str]) -> None:
    model.save_pretrained(folder)
    weights, name = load_file(folder / "model.safetensors"), PATCHES + ".weight"
    if PATCHES not in kept:
        weights[name] = pack_weights((weights[name].float() * 50).round().long())
        weights[name + "_scale"] = torch.full((1,), 50.0, dtype=model.dtype)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitnet", "modules_to_not_convert": kept}
    (folder / "config.json").write_text(json.dumps(config))


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = Gemma4VisionModel(Gemma4VisionConfig(**LAYERS, **HEADS, pooling_kernel_size=2))
    linear = [n for n, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    model.get_submodule(PATCHES).weight.random_(-1, 2).div_(50)
    model.patch_embedder.position_embedding_table.zero_()  # of ones, it hides the patches
    model.to(device, dtype).eval()
    kept = [name for name in linear if name != PATCHES or workaround == "leave-out"]
    row, column = torch.arange(16, device=device) // 4, torch.arange(16, device=device) % 4
    places = torch.stack((column, row), dim=-1)[None]
    pixels = torch.rand(1, 16, 3 * 4 * 4, device=device, dtype=dtype)
    with tempfile.TemporaryDirectory() as folder, torch.compiler.set_stance("force_eager"):
        save_packed(model, Path(folder), kept)
        packed = Gemma4VisionModel.from_pretrained(folder, torch_dtype=dtype).to(device).eval()
        exact, found = (m(pixels, places).last_hidden_state.float() for m in (model, packed))
    measured["output_relative_error"] = ((found - exact).norm() / exact.norm()).item()
    assert measured["output_relative_error"] < 0.2, "the pixels do not reach the vision tower"


if __name__ == "__main__":
    main(*sys.argv[1:])
