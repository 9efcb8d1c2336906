# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Emu3 can be neither built nor saved: a token of its vocabulary is called dtype"
# reports = ["https://github.com/huggingface/transformers/pull/40766"]
# area = "config"
# models = ["emu3"]
# trigger = ["load", "save"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# drop-token = "Leave the token out of the vocabulary in the config."
#
# [tool.repromatrix.snippets]
# drop-token = '''
# words = {word: number for word, number in words.items() if word != "dtype"}
# config = Emu3Config(**options, vocabulary_map=words)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.56,<4.56.2"]
# raises = "IndexError"
# match = "list index out of range"
# where = "transformers.configuration_utils:PretrainedConfig.dict_dtype_to_str"
# fixed-by = "https://github.com/huggingface/transformers/pull/40766"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/40766"
# says = "A token called dtype, with its number, is taken for a dtype."
# when = ["transformers>=4.56,<4.56.2"]
# outcome = "fails"
# ///
"""A model must be built and saved whatever the keys of the dictionaries in its config are called.

Writing a config cuts the value of every key `dtype`, at any depth, at its dot, as in
`torch.float16`. Emu3's config holds the vocabulary, in which a token of this name has a number. A
model that can generate writes its config when it is built.
"""

import os
import sys
import tempfile

import torch
from transformers import Emu3Config, Emu3ForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
TEXT = {"vocab_size": 99, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "pad_token_id": 0}
VISION = {"codebook_size": 8, "embed_dim": 4, "base_channels": 32, "hidden_size": 32}
BLOCKS = {"channel_multiplier": [1], "num_res_blocks": 1, "attn_resolutions": []}
WORDS = {"<image>": 90, "<|extra_200|>": 91, "<|visual token 000000|>": 92, "dtype": 93}
WORKAROUNDS = {"", "drop-token"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    parts = {"text_config": {**TEXT, **HEADS}, "vq_config": {**VISION, **BLOCKS}}
    words = {word: number for word, number in WORDS.items() if not workaround or word != "dtype"}
    model = Emu3ForConditionalGeneration(Emu3Config(**parts, vocabulary_map=words)).to(dtype)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        model = Emu3ForConditionalGeneration.from_pretrained(folder, torch_dtype=dtype)
    logits = model.to(device).eval()(input_ids=torch.tensor([[5, 6, 7]], device=device)).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
