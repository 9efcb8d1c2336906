# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5", "diffusers>=0.38"]
#
# [tool.repromatrix]
# title = "diffusers LongCatAudioDiTPipeline fails with an fp32 text encoder and 16-bit rest"
# reports = ["https://github.com/huggingface/diffusers/issues/13580"]
# area = "diffusion"
# models = ["longcat-audio-dit"]
# trigger = ["load"]
# symptom = ["error"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# cast-encoder = "Cast the text encoder to the dtype of the transformer."
# autocast = "Run the pipeline under torch.autocast."
#
# [tool.repromatrix.snippets]
# cast-encoder = "pipeline.text_encoder.to(dtype)"
# autocast = '''
# with torch.autocast(device, dtype):
#     audio = pipeline(prompt).audios'''
#
# [[tool.repromatrix.fails]]
# at-fault = "diffusers"
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = "mat1 and mat2 must have the same dtype, but got Float and"
# where = """
# diffusers.models.transformers.transformer_longcat_audio_dit:AudioDiTTimestepEmbedding.forward"""
# note = "https://github.com/huggingface/diffusers/pull/13694 proposes to mend it."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/diffusers/issues/13580"
# says = "With a text encoder in fp32 and a transformer in 16 bit the first linear layer fails."
# precisions = ["bf16", "fp16"]
# outcome = "fails"
# ///
"""A 16-bit transformer must run with a text encoder that was loaded in fp32.

diffusers takes a dtype per part, and text encoders of the T5 family are often kept in fp32. This
pipeline makes the noise, the latent condition and the timesteps in the dtype of what the text
encoder returns, and passes all of it to the transformer, whose first layer is 16 bit.
"""

import os
import sys
from contextlib import nullcontext

import torch
from diffusers import LongCatAudioDiTPipeline, LongCatAudioDiTTransformer, LongCatAudioDiTVae
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast, UMT5Config, UMT5EncoderModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "cast-encoder", "autocast"}
TEXT = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "vocab_size": 99}
TRANSFORMER = {"dit_dim": 64, "dit_depth": 1, "dit_heads": 4, "dit_text_dim": 32, "latent_dim": 8}
VAE = {"channels": 16, "c_mults": [1, 2], "strides": [2], "latent_dim": 8}
VAE |= {"encoder_latent_dim": 16, "downsampling_ratio": 2}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    words = Tokenizer(WordLevel({"[UNK]": 0, "[PAD]": 1}, "[UNK]"))
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **names)
    encoder = UMT5EncoderModel(UMT5Config(**TEXT)).eval()
    transformer = LongCatAudioDiTTransformer(**TRANSFORMER, text_conv=False).eval()
    pipeline = LongCatAudioDiTPipeline(
        vae=LongCatAudioDiTVae(**VAE).eval().to(dtype),
        text_encoder=encoder.to(dtype) if workaround == "cast-encoder" else encoder,
        tokenizer=tokenizer,
        transformer=transformer.to(dtype),
    ).to(device)
    pipeline.set_progress_bar_config(disable=True)
    half = workaround == "autocast" and dtype != torch.float32
    with torch.autocast(device, dtype) if half else nullcontext():
        audio = pipeline("waves", audio_duration_s=0.001, num_inference_steps=2).audios
    assert torch.as_tensor(audio).isfinite().all(), "the sound is not finite"


if __name__ == "__main__":
    main(*sys.argv[1:])
