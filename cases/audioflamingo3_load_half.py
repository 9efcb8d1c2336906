# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.0"]
#
# [tool.repromatrix]
# title = "Audio Flamingo 3 loaded in bf16 or fp16: mixed dtype error in the audio encoder"
# reports = [
#     "https://github.com/huggingface/transformers/pull/47258",
#     "https://github.com/huggingface/transformers/pull/47300",
# ]
# area = "audio-tower"
# models = ["audioflamingo3"]
# trigger = ["load", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-again = "Load in 16 bit, then call .to(dtype) on the loaded model."
#
# [tool.repromatrix.snippets]
# cast-again = "model.to(dtype)  # after from_pretrained"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.10,<5.15"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "mixed dtype (CPU): expect parameter to have scalar type of Float",
#     "expected scalar type Float but found Half",
#     "expected scalar type Float but found BFloat16",
# ]
# where = "transformers.models.audioflamingo3.modeling_audioflamingo3:AudioFlamingo3EncoderLayer.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/47258"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/47258"
# says = "A model that is loaded in bfloat16 raises in a layer norm of the audio encoder."
# when = ["transformers>=5.13,<5.15"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/47300"
# says = "A regression: before the base model was split from the model with a head it worked."
# when = ["transformers>=5.0,<5.10"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""Audio Flamingo 3 loaded in bf16 or fp16 must run a forward pass on audio features.

From 5.10 to 5.14 it raised in a layer norm of the audio encoder: the class inherited from Voxtral
that the position embeddings stay in fp32, but not the cast after they are added, so fp32 hidden
states met 16-bit layer norm weights. Only `from_pretrained` keeps them in fp32; a model that is
loaded in fp32 and cast afterwards is not affected.
"""

import os
import sys
import tempfile

import torch
from transformers import AudioFlamingo3Config, AudioFlamingo3ForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "cast-again"}
AUDIO_TOKEN, FRAMES = 98, 32
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
AUDIO = {**SIZES, "num_attention_heads": 2, "num_mel_bins": 8, "max_source_positions": FRAMES // 2}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
TEXT = {**SIZES, **HEADS, "model_type": "qwen2", "vocab_size": 99}
measured: dict[str, float] = {}


def tiny_model() -> AudioFlamingo3ForConditionalGeneration:
    config = AudioFlamingo3Config(audio_config=AUDIO, text_config=TEXT, audio_token_id=AUDIO_TOKEN)
    return AudioFlamingo3ForConditionalGeneration(config)


def share_in_fp32(model: torch.nn.Module) -> float:
    in_fp32 = [p.numel() * (p.dtype == torch.float32) for p in model.parameters()]
    return sum(in_fp32) / sum(p.numel() for p in model.parameters())


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    with tempfile.TemporaryDirectory() as folder:
        tiny_model().save_pretrained(folder)
        model = AudioFlamingo3ForConditionalGeneration.from_pretrained(folder, torch_dtype=dtype)
    if workaround == "cast-again":
        model.to(dtype)
    measured["share_in_fp32"] = share_in_fp32(model)
    ids = torch.tensor([[1, *[AUDIO_TOKEN] * (FRAMES // 4), 5, 6]], device=device)
    sound = torch.randn(1, 8, FRAMES, device=device, dtype=dtype)
    heard = torch.ones(1, FRAMES, device=device, dtype=torch.long)
    with torch.no_grad():
        logits = (
            model.to(device).eval()(ids, input_features=sound, input_features_mask=heard).logits
        )
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
