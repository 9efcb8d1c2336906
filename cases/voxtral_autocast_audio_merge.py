# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.54"]
#
# [tool.repromatrix]
# title = "Voxtral under autocast fails to merge audio features: masked_scatter dtype error"
# reports = ["https://github.com/huggingface/transformers/issues/47672"]
# area = "multimodal-merge"
# models = ["voxtral"]
# same-code = ["audioflamingo3", "glmasr", "musicflamingo", "pi0", "qwen3-asr", "vibevoice-asr"]
# trigger = ["autocast", "trainer"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# weights-in-half = "Cast the model to 16 bit and do not use autocast."
# cast-embeddings = "Cast the output of the token embedding in a forward hook."
#
# [tool.repromatrix.snippets]
# weights-in-half = "model.to(dtype)  # and no torch.autocast"
# cast-embeddings = '''
# table = model.get_input_embeddings()
# table.register_forward_hook(lambda *call: call[-1].to(dtype))'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.54,<4.57"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = "Index put requires the source and destination dtypes match, got Float for"
# where = "transformers.models.voxtral.modeling_voxtral:VoxtralForConditionalGeneration.forward"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.57,<5.15"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "masked_scatter: expected self and source to have same dtypes but gotFloat and ",
#     "masked_scatter_: expected self and source to have same dtypes but got Float and ",
# ]
# where = [
#     "transformers.models.voxtral.modeling_voxtral:VoxtralForConditionalGeneration.forward",
#     "transformers.models.voxtral.modeling_voxtral:VoxtralModel.forward",
# ]
# fixed-by = "https://github.com/huggingface/transformers/pull/47673"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/47672"
# says = "Seven models, Voxtral among them, raise in the forward pass under bfloat16 autocast."
# when = ["transformers>=5.14,<5.15"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""Voxtral must accept audio under autocast, which is how `Trainer(bf16=True)` trains it.

Until 5.14 it raised: under autocast the audio projector returns 16 bit while the token embeddings
stay in fp32, and the audio features were moved to their device but not cast. The merge was an index
assignment at first and is a masked_scatter since 4.57, so one bug has two messages.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import VoxtralConfig, VoxtralForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "weights-in-half", "cast-embeddings"}
AUDIO_TOKEN = 98
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
AUDIO = {**SIZES, "intermediate_size": 64, "num_mel_bins": 8, "max_source_positions": 16}
HEADS = {"num_key_value_heads": 2, "head_dim": 8}
TEXT = {**SIZES, **HEADS, "model_type": "llama", "intermediate_size": 32, "vocab_size": 99}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = VoxtralConfig(audio_config=AUDIO, text_config=TEXT, audio_token_id=AUDIO_TOKEN)
    model = VoxtralForConditionalGeneration(config).to(device).eval()
    if workaround == "weights-in-half":
        model.to(dtype)
    if workaround == "cast-embeddings":
        model.get_input_embeddings().register_forward_hook(lambda *call: call[-1].to(dtype))
    ids = torch.tensor([[1, *[AUDIO_TOKEN] * 4, 5, 6]], device=device)
    sound = torch.randn(1, 8, 32, device=device)
    autocast = precision != "fp32" and workaround != "weights-in-half"
    with torch.no_grad(), torch.autocast(device, dtype) if autocast else nullcontext():
        logits = model(input_ids=ids, input_features=sound).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
