# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.5"]
#
# [tool.repromatrix]
# title = "Gemma 4 with 16-bit audio tower and fp32 text model: masked_scatter dtype error"
# reports = [
#     "https://github.com/huggingface/transformers/pull/47482",
#     "https://github.com/unslothai/unsloth/issues/7224",
# ]
# area = "multimodal-merge"
# models = ["gemma4"]
# trigger = ["cast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# one-dtype = "Cast the text model to the dtype of the audio tower as well."
# cast-features = "Cast the output of embed_audio to fp32 in a forward hook."
#
# [tool.repromatrix.snippets]
# one-dtype = "model.to(dtype)"
# cast-features = "model.embed_audio.register_forward_hook(lambda *call: call[-1].float())"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.5,<5.15"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "masked_scatter: expected self and source to have same dtypes but gotFloat and ",
#     "masked_scatter_: expected self and source to have same dtypes but got Float and ",
# ]
# where = "transformers.models.gemma4.modeling_gemma4:Gemma4Model.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/47482"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/unslothai/unsloth/issues/7224"
# says = "On a GPU without bfloat16 audio fails: the text model is kept in fp32, the tower in fp16."
# when = ["transformers>=5.5,<5.15"]
# precisions = ["fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/47482"
# says = "Casting audio features like image and video features fixes it."
# when = ["transformers>=5.15"]
# precisions = ["fp16"]
# outcome = "passes"
# ///
"""Gemma 4 must accept audio with a 16-bit audio tower and a text model in fp32.

Until 5.14 it raised in masked_scatter: image and video features were cast to the dtype of the text
embeddings before the merge, audio features were only moved to their device. Unsloth makes this
combination on GPUs without bfloat16.
"""

import os
import sys

import torch
from transformers import Gemma4Config, Gemma4Model

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "one-dtype", "cast-features"}
AUDIO_TOKEN, FRAMES, MELS = 98, 16, 16
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
AUDIO = {
    **SIZES,
    "num_hidden_layers": 1,
    "subsampling_conv_channels": [MELS, 4],
    "output_proj_dims": 16,
}
HEADS = {"num_key_value_heads": 1, "head_dim": 8, "global_head_dim": 8}
LAYER = {"layer_types": ["sliding_attention", "full_attention"], "hidden_size_per_layer_input": 0}
TEXT = {**SIZES, **HEADS, **LAYER, "intermediate_size": 32, "vocab_size": 99}
SPECIAL = {"audio_token_id": AUDIO_TOKEN, "image_token_id": 97, "video_token_id": 96}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Gemma4Config(text_config=TEXT, audio_config=AUDIO, **SPECIAL)
    model = Gemma4Model(config).to(device).eval()
    model.audio_tower.to(dtype)
    model.embed_audio.to(dtype)
    if workaround == "one-dtype":
        model.to(dtype)
    if workaround == "cast-features":
        model.embed_audio.register_forward_hook(lambda *call: call[-1].float())
    ids = torch.tensor([[2, *[AUDIO_TOKEN] * (FRAMES // 4), 5, 6]], device=device)
    sound = torch.randn(1, FRAMES, MELS, device=device, dtype=dtype)
    heard = torch.ones(1, FRAMES, device=device, dtype=torch.bool)
    with torch.no_grad():
        output = model(input_ids=ids, input_features=sound, input_features_mask=heard)
    assert output.last_hidden_state.isfinite().all(), "non-finite hidden states"


if __name__ == "__main__":
    main(*sys.argv[1:])
