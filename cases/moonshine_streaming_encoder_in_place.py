# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.2"]
#
# [tool.repromatrix]
# title = "Moonshine Streaming changes the encoder's output in place with every decoder call"
# reports = []
# found-by = "sweep"
# area = "generation"
# models = ["moonshine_streaming"]
# trigger = ["generate", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# copy = "Pass a copy of the encoder's output to each call."
# cache = "Decode with a cache, which reads the encoder's output at the first step alone."
#
# [tool.repromatrix.snippets]
# copy = "outputs = model(encoder_outputs=copy.deepcopy(heard), decoder_input_ids=ids)"
# cache = '''
# options = {"past_key_values": past, "use_cache": True}
# outputs = model(encoder_outputs=heard, decoder_input_ids=ids[:, -1:], **options)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.2.0"]
# raises = "AssertionError"
# match = "the encoder's output was changed in place"
# where = "moonshine_streaming_encoder_in_place:main"
# ///
"""Moonshine Streaming must give the same logits when it is called twice with one encoder output.

`MoonshineStreamingDecoder.forward` adds its position embeddings to `encoder_hidden_states` with
`+=`, so that the tensor of the caller changes and each call adds them once more. Generating without
a cache calls the decoder so at every step.
"""

import copy
import os
import sys

import torch
from transformers import MoonshineStreamingConfig, MoonshineStreamingForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "head_dim": 16}
SIZES |= {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64}
ENCODER = {**SIZES, "sliding_windows": [[16, 4]]}
TOKENS = {"vocab_size": 99, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
WORKAROUNDS = {"", "copy", "cache"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = MoonshineStreamingConfig(**SIZES, **TOKENS, encoder_config=ENCODER)
    model = MoonshineStreamingForConditionalGeneration(config).to(device, dtype).eval()
    torch.nn.init.normal_(model.model.decoder.pos_emb.weight)
    for name, parameter in model.named_parameters():
        if name.endswith("proj.weight"):
            torch.nn.init.normal_(parameter, std=0.2)
    sound = torch.randn(1, 4000, device=device, dtype=dtype)
    ids = torch.randint(5, 90, (1, 4), device=device)
    past = None
    with torch.no_grad():
        heard = model.get_encoder()(sound)
        exact = model(encoder_outputs=copy.deepcopy(heard), decoder_input_ids=ids).logits[:, -1]
        for step in range(1, 5):
            given = copy.deepcopy(heard) if workaround == "copy" else heard
            tokens = ids[:, step - 1 : step] if workaround == "cache" else ids[:, :step]
            options = {"past_key_values": past, "use_cache": workaround == "cache"}
            out = model(encoder_outputs=given, decoder_input_ids=tokens, **options)
            past = out.past_key_values
    apart = (out.logits[:, -1] - exact).float().norm() / exact.float().norm()
    measured["logits_relative_error"] = float(apart)
    assert measured["logits_relative_error"] < 0.05, "the encoder's output was changed in place"


if __name__ == "__main__":
    main(*sys.argv[1:])
