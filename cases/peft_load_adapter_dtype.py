# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "PEFT load_adapter ignores autocast_adapter_dtype=False on a model with a task type"
# reports = ["https://github.com/huggingface/peft/pull/3668"]
# area = "peft"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every 16-bit model with a further adapter whose task type is SEQ_CLS, TOKEN_CLS or QUESTION_ANS;
# fp32 models cannot meet it: their adapters are fp32 anyway."""
# trigger = ["cast", "adapter"]
# symptom = ["wrong-dtype"]
# environments = ["5.16.1+peft0.21.2"]
#
# [tool.repromatrix.workarounds]
# no-task-type = "Leave out task_type, so that the class of the model is the plain PeftModel."
# cast-after-load = "Call .to(dtype) on the model once the adapter is loaded."
#
# [tool.repromatrix.snippets]
# no-task-type = 'config = LoraConfig(target_modules=["q_proj"], task_type=None)'
# cast-after-load = "model.to(dtype)  # after load_adapter"
#
# [[tool.repromatrix.fails]]
# when = ["peft>=0.19,<0.21"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the loaded adapter was cast"
# where = "peft_load_adapter_dtype:main"
# fixed-by = "https://github.com/huggingface/peft/pull/3668"
# note = "Before https://github.com/huggingface/peft/pull/2893 add_adapter did not cast."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/3668"
# says = "load_adapter passes the argument on, and the cast to fp32 happens all the same."
# when = ["peft>=0.19,<0.21"]
# precisions = ["bf16", "fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/peft/pull/3668"
# says = "The change forwards the argument."
# when = ["peft>=0.21"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""An adapter that load_adapter gets with autocast_adapter_dtype=False keeps the model's dtype.

From peft 0.19 to 0.20 it was cast to fp32 without a word: `load_adapter` hands the argument to
`add_adapter`, and the subclasses for classification and question answering dropped it there,
where the default is to cast.
"""

import os
import sys
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForSequenceClassification

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "pad_token_id": 0}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 4}
WORKAROUNDS = {"", "no-task-type", "cast-after-load"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    base = LlamaForSequenceClassification(LlamaConfig(**SIZES, **LAYERS)).to(device, dtype)
    task = None if workaround == "no-task-type" else "SEQ_CLS"
    config = LoraConfig(r=4, target_modules=["q_proj"], task_type=task)
    model = get_peft_model(base, config, autocast_adapter_dtype=False)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        model.load_adapter(folder, "second", autocast_adapter_dtype=False)
    if workaround == "cast-after-load":
        model.to(dtype)
    model.set_adapter("second")
    logits = model(input_ids=torch.arange(1, 9, device=device)[None]).logits
    assert logits.isfinite().all(), "non-finite logits"
    weights = {name: one for name, one in model.named_parameters() if ".second." in name}
    measured["other_dtypes"] = sum(one.dtype != dtype for one in weights.values())
    assert weights, "no weights of the second adapter"
    assert measured["other_dtypes"] == 0, "the loaded adapter was cast"


if __name__ == "__main__":
    main(*sys.argv[1:])
