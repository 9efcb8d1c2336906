# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Text-to-audio pipeline: BatchEncoding.to() got an unexpected keyword argument 'dtype'"
# reports = [
#     "https://github.com/huggingface/transformers/issues/48683",
#     "https://github.com/huggingface/transformers/issues/48732",
#     "https://github.com/huggingface/transformers/pull/48505",
# ]
# area = "pipelines"
# models = "any"
# shown-with = ["vits"]
# concerns = "Every text-to-audio model whose text a tokenizer prepares, as VITS, Bark and MusicGen."
# trigger = ["forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# call-model = { says = "Tokenize, and call the model without the pipeline.", skips = true }
#
# [tool.repromatrix.snippets]
# call-model = '''
# ids = tokenizer(text, return_tensors="pt").input_ids
# audio = model(ids).waveform'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.17.0,<5.18.0"]
# raises = "TypeError"
# match = "BatchEncoding.to() got an unexpected keyword argument 'dtype'"
# where = "transformers.pipelines.text_to_audio:TextToAudioPipeline.preprocess"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/48732"
# says = "The pipeline fails on 5.17.0."
# when = ["transformers==5.17.0"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/48505"
# says = "The cast is done only where what was prepared can be cast."
# when = ["transformers>=5.18"]
# outcome = "passes"
# ///
"""A text-to-audio pipeline prepares text with a tokenizer in every precision.

5.17 casts what it prepared to the dtype of the model, but the encoding of a tokenizer holds whole
numbers, and its method `to` takes a device only. fp32 fails as well.
"""

import os
import sys

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast, VitsConfig, VitsModel, pipeline

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 8}
FLOW = {"flow_size": 8, "prior_encoder_num_flows": 1, "prior_encoder_num_wavenet_layers": 1}
POSTERIOR = {"spectrogram_bins": 8, "posterior_encoder_num_wavenet_layers": 1}
DURATIONS = {"use_stochastic_duration_prediction": False, "duration_predictor_filter_channels": 8}
VOCODER = {
    "upsample_initial_channel": 8,
    "upsample_rates": [2],
    "upsample_kernel_sizes": [4],
    "resblock_kernel_sizes": [3],
    "resblock_dilation_sizes": [[1]],
}
WORKAROUNDS = {"", "call-model"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = VitsConfig(**LAYERS, **FLOW, **POSTERIOR, **DURATIONS, **VOCODER, vocab_size=9)
    model = VitsModel(config).to(device, dtype).eval()
    words = Tokenizer(WordLevel({"a": 0}))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, model_input_names=["input_ids", "attention_mask"]
    )
    ids = tokenizer("a", return_tensors="pt").input_ids.to(device)
    audio = model(ids).waveform.float()
    if workaround != "call-model":
        pipe = pipeline("text-to-audio", model=model, tokenizer=tokenizer, device=device)
        audio = torch.as_tensor(pipe("a")["audio"])
    assert audio.isfinite().all(), "the audio is not finite"


if __name__ == "__main__":
    main(*sys.argv[1:])
