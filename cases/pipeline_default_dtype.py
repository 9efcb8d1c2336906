# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "pipeline() without dtype: fp32 up to 4.52 and the checkpoint's dtype from 4.53"
# reports = ["https://github.com/huggingface/transformers/pull/38882"]
# area = "pipelines"
# models = "any"
# shown-with = ["bert"]
# concerns = """
# Every pipeline that loads a 16-bit checkpoint and is given no dtype; fp32 checkpoints cannot meet
# it."""
# trigger = ["load"]
# symptom = ["wrong-dtype"]
# kind = "change"
#
# [tool.repromatrix.workarounds]
# auto = "Ask for torch_dtype=\"auto\" (dtype from 4.56): the new behaviour everywhere."
# own-model = "Load the model with the dtype you want, and hand it to the pipeline."
#
# [tool.repromatrix.snippets]
# auto = 'pipe = pipeline(task, model=name, torch_dtype="auto")'
# own-model = '''
# model = AutoModel.from_pretrained(name, torch_dtype=dtype)
# pipe = pipeline(task, model=model, tokenizer=tokenizer)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0,<4.53.0"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the pipeline's model is not in the dtype of its checkpoint"
# where = "pipeline_default_dtype:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/38882"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.56.0,<4.56.1"]
# precisions = ["bf16", "fp16"]
# workarounds = ["", "auto"]
# raises = "AssertionError"
# match = "the pipeline's model is not in the dtype of its checkpoint"
# where = "pipeline_default_dtype:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/38882"
# says = "Without a dtype a pipeline loads its model as it was saved, from 4.53 on."
# when = ["transformers>=4.53"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""A pipeline that is given no dtype loads its model in the dtype of the checkpoint.

Up to 4.52 it was upcast to fp32. The change is intended; `from_pretrained` followed in 5.0, so that
between the two releases a pipeline and a model loaded by hand compute in different dtypes.
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
WORKAROUNDS = {"", "auto", "own-model"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    named = "dtype" if "dtype" in inspect.signature(pipeline).parameters else "torch_dtype"
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"word": 0})))
    with tempfile.TemporaryDirectory() as folder:
        model = AutoModel.from_config(BertConfig(**SIZES, num_attention_heads=2))
        model.to(dtype).save_pretrained(folder)
        own = AutoModel.from_pretrained(folder, **{named: dtype}).to(device)
        by_hand = own(input_ids=torch.tensor([[0]], device=device)).last_hidden_state.dtype
        pipe = pipeline(
            "feature-extraction",
            model=own if workaround == "own-model" else folder,
            tokenizer=tokenizer,
            device=device,
            **({named: "auto"} if workaround == "auto" else {}),
        )
        pipe("word")
        found = pipe.model(input_ids=torch.tensor([[0]], device=device)).last_hidden_state.dtype
    assert by_hand is dtype, "a model that is loaded by hand is not in the dtype asked for"
    assert found is dtype, "the pipeline's model is not in the dtype of its checkpoint"


if __name__ == "__main__":
    main(*sys.argv[1:])
