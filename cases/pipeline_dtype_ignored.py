# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "pipeline(dtype=...) is ignored without a device_map"
# reports = ["https://github.com/huggingface/transformers/pull/40638"]
# area = "loading"
# models = "any"
# shown-with = ["bert"]
# concerns = "Every model that a pipeline loads in another dtype than that of its checkpoint."
# trigger = ["load"]
# symptom = ["wrong-dtype"]
#
# [tool.repromatrix.workarounds]
# model-kwargs = "Pass the dtype in model_kwargs."
# own-model = "Load the model with from_pretrained, and hand it to the pipeline."
#
# [tool.repromatrix.snippets]
# model-kwargs = '''
# asked = {named: dtype}  # named is "dtype", before 4.56 "torch_dtype"
# pipe = pipeline(task, model=name, model_kwargs=asked)'''
# own-model = '''
# model = AutoModel.from_pretrained(name, **asked)  # dtype, before 4.56 torch_dtype
# pipe = pipeline(task, model=model, tokenizer=tokenizer)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.56,<4.56.1"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the pipeline's model is not in the dtype that was asked for"
# where = "pipeline_dtype_ignored:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/40638"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/40638"
# says = "Without a device_map the dtype does nothing."
# when = ["transformers>=4.56,<4.56.1"]
# precisions = ["bf16", "fp16"]
# outcome = "fails"
# ///
"""A pipeline loads its model in the dtype that it is asked for.

When `torch_dtype` became `dtype`, the line that passes it on was indented into the condition that
a `device_map` is given.
"""

import inspect
import os
import sys
import tempfile

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModel, BertConfig, PreTrainedTokenizerFast, pipeline

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 99}
WORKAROUNDS = {"", "model-kwargs", "own-model"}
OTHER = {"fp32": torch.float16, "bf16": torch.float16, "fp16": torch.bfloat16}
"""The dtype of the checkpoint: neither the default of loading nor "auto" gives what is asked for."""
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    named = "dtype" if "dtype" in inspect.signature(pipeline).parameters else "torch_dtype"
    asked = {named: dtype}
    with tempfile.TemporaryDirectory() as folder:
        model = AutoModel.from_config(BertConfig(**SIZES, num_attention_heads=2))
        model.to(OTHER[precision]).save_pretrained(folder)
        ids = torch.tensor([[0, 1]], device=device)
        own = AutoModel.from_pretrained(folder, **asked).to(device)
        wanted = own(input_ids=ids).last_hidden_state.dtype
        given = {"model-kwargs": {"model_kwargs": asked}, "own-model": {}}.get(workaround, asked)
        loaded = own if workaround == "own-model" else folder
        words = Tokenizer(WordLevel({"word": 0}))
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=words)
        pipe = pipeline(
            "feature-extraction", model=loaded, tokenizer=tokenizer, device=device, **given
        )
        found = pipe.model(input_ids=ids).last_hidden_state.dtype
    assert found is wanted is dtype, "the pipeline's model is not in the dtype that was asked for"


if __name__ == "__main__":
    main(*sys.argv[1:])
