# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "diffusers>=0.35"]
#
# [tool.repromatrix]
# title = "diffusers SDXL pipeline passes 16-bit latents to a VAE that was loaded in fp32"
# reports = ["https://github.com/huggingface/diffusers/pull/12847"]
# area = "diffusion"
# models = ["sdxl"]
# trigger = ["load"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# latents = "Take the latents out of the pipeline, cast them, and decode them yourself."
# vae-16bit = "Cast the VAE to the dtype of the UNet."
#
# [tool.repromatrix.snippets]
# latents = '''
# latents = pipeline(prompt, output_type="latent").images.float()
# images = vae.decode(latents / vae.config.scaling_factor).sample'''
# vae-16bit = "vae.to(dtype)"
#
# [[tool.repromatrix.fails]]
# at-fault = "diffusers"
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = "and bias type (float) should be the same"
# where = "diffusers.models.autoencoders.autoencoder_kl:AutoencoderKL._decode"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/diffusers/pull/12847"
# says = "Latents in fp16 reach a VAE in fp32 on a CPU, and a layer of it raises."
# precisions = ["fp16"]
# outcome = "fails"
# ///
"""A 16-bit SDXL pipeline must decode its latents with a VAE that was loaded in fp32.

The VAE of SDXL overflows in fp16, so that people load it in fp32. The pipeline upcasts the latents
where the VAE is fp16 and has to be upcast; a VAE that is fp32 already gets them as they are.
"""

import os
import sys

import torch
from diffusers import (
    AutoencoderKL,
    EulerDiscreteScheduler,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "latents", "vae-16bit"}
UNET = {"sample_size": 8, "block_out_channels": (32, 32), "layers_per_block": 1}
UNET |= {"down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D")}
UNET |= {"up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"), "cross_attention_dim": 32}
UNET |= {"attention_head_dim": 4, "addition_embed_type": "text_time", "addition_time_embed_dim": 8}
UNET |= {"projection_class_embeddings_input_dim": 80, "use_linear_projection": True}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    vae = AutoencoderKL(block_out_channels=(32,), force_upcast=False).eval()
    pipeline = StableDiffusionXLPipeline(
        vae=vae.to(dtype) if workaround == "vae-16bit" else vae,
        unet=UNet2DConditionModel(**UNET).eval().to(dtype),
        scheduler=EulerDiscreteScheduler(),
        **dict.fromkeys(("text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2")),
    ).to(device)
    pipeline.set_progress_bar_config(disable=True)
    texts = {"prompt_embeds": torch.randn(1, 7, 32), "pooled_prompt_embeds": torch.randn(1, 32)}
    texts = {name: text.to(device, dtype) for name, text in texts.items()}
    kind = "latent" if workaround == "latents" else "pt"
    images = pipeline(**texts, guidance_scale=1, num_inference_steps=2, output_type=kind).images
    if workaround == "latents":
        images = vae.decode(images.float() / vae.config.scaling_factor).sample
    assert images.isfinite().all(), "pixels are not finite"


if __name__ == "__main__":
    main(*sys.argv[1:])
