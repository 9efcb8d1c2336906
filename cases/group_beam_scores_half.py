# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49,<4.57"]
#
# [tool.repromatrix]
# title = "Group beam search with output_scores in 16 bit: Index put requires matching dtypes"
# reports = ["https://github.com/huggingface/transformers/issues/41238"]
# area = "generation"
# models = "any"
# shown-with = ["llama"]
# concerns = "Every 16-bit model that generates with num_beam_groups > 1 and output_scores."
# trigger = ["load", "cast", "autocast", "generate"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# logits-fp32 = "Return the logits in fp32, from a hook on the output layer."
# no-scores = { says = "Generate without output_scores.", skips = true }
#
# [tool.repromatrix.snippets]
# logits-fp32 = "model.lm_head.register_forward_hook(lambda _, __, logits: logits.float())"
# no-scores = "made = model.generate(**inputs, output_scores=False)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<4.57"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = "Index put requires the source and destination dtypes match"
# where = "transformers.generation.utils:GenerationMixin._group_beam_search"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/41238"
# says = "It fails in half precision from 4.45.0 on."
# when = ["transformers>=4.49,<4.57"]
# precisions = ["bf16", "fp16"]
# outcome = "fails"
# ///
"""Group beam search returns the scores of its beams for a model in 16 bit.

The scores of a step are collected in a tensor of the dtype of the logits, but since 4.45 they are
computed in fp32, and an indexed assignment does not cast. Group beam search left the library in
4.57, so no release of it is fixed.
"""

import os
import sys

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
BEAMS = {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0, "do_sample": False}
WORKAROUNDS = {"", "logits-fp32", "no-scores"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = LlamaConfig(**SIZES, **HEADS, pad_token_id=0)
    model = AutoModelForCausalLM.from_config(config).to(device, dtype).eval()
    if workaround == "logits-fp32":
        model.lm_head.register_forward_hook(lambda _, __, logits: logits.float())
    asked = {"return_dict_in_generate": True, "output_scores": workaround != "no-scores"}
    ids = torch.randint(5, 90, (1, 6), device=device)
    mask = torch.ones_like(ids)
    made = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=3, **BEAMS, **asked)
    assert made.sequences.shape == (1, 9), "the search did not make three tokens"
    if workaround != "no-scores":
        assert len(made.scores) == 3, "the scores of a step are missing"


if __name__ == "__main__":
    main(*sys.argv[1:])
