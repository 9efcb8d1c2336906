# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Emu3's image tokenizer in 16 bit refuses fp32 pixels"
# reports = ["https://github.com/huggingface/transformers/pull/47948"]
# area = "vision-tower"
# models = ["emu3"]
#
# [tool.repromatrix.workarounds]
# cast-pixels = "Cast pixel_values to the tokenizer's dtype before the call."
# autocast = "Keep the tokenizer in 16 bit and call it under torch.autocast."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<5.16"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = ["Input type (float) and bias type (", "Input type (torch.cuda.FloatTensor) and"]
# fixed-by = "https://github.com/huggingface/transformers/pull/47948"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/47948"
# says = "A cast to the dtype of the VQ-VAE, merged in August 2026, lets other pixels in."
# when = ["transformers>=5.16"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""A 16-bit Emu3 must be able to turn fp32 pixels into image tokens.

It could not: the VQ-VAE's encoder put the pixels into its first convolution as they came from the
image processor; since 5.16 they are cast to the dtype of the weights.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import Emu3VQVAE, Emu3VQVAEConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "cast-pixels", "autocast"}
SIZES = {
    "codebook_size": 8,
    "embed_dim": 4,
    "latent_channels": 4,
    "base_channels": 32,
    "channel_multiplier": [1, 1],
    "num_res_blocks": 1,
    "attn_resolutions": [],
    "hidden_size": 32,
    "num_attention_heads": 1,
}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(0)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = Emu3VQVAE(Emu3VQVAEConfig(**SIZES)).to(device, dtype).eval()
    pixels = torch.randn(1, 3, 8, 8, device=device)
    sizes = torch.tensor([[8, 8]], device=device)
    model.encode(pixels.to(dtype), sizes)  # nothing but the dtype of the pixels is at fault
    if workaround == "cast-pixels":
        pixels = pixels.to(model.dtype)
    autocast = workaround == "autocast" and dtype != torch.float32
    with torch.autocast(device, dtype) if autocast else nullcontext():
        model.encode(pixels, sizes)


if __name__ == "__main__":
    main(*sys.argv[1:])
