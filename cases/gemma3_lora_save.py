# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.50", "accelerate", "peft"]
#
# [tool.repromatrix]
# title = "Gemma 3 LoRA saves no checkpoint: 'HybridCache' object has no attribute 'float'"
# reports = [
#     "https://github.com/huggingface/transformers/issues/36814",
#     "https://github.com/hiyouga/LlamaFactory/issues/7373",
#     "https://github.com/hiyouga/LlamaFactory/issues/7563",
#     "https://github.com/unslothai/unsloth/issues/2223",
# ]
# area = "kv-cache"
# models = ["gemma3"]
# trigger = ["load", "cast", "trainer", "adapter"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# text-cache-off = "Add \"use_cache\": false to text_config in config.json."
# outer-cache-off = "Add \"use_cache\": false to config.json itself, beside text_config."
#
# [tool.repromatrix.workarounds.never-evaluate]
# says = "Save checkpoints and never evaluate."
# skips = true
#
# [tool.repromatrix.workarounds.never-save]
# says = "Evaluate and never save a checkpoint."
# skips = true
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.50,<4.51"]
# precisions = ["bf16", "fp16"]
# raises = "AttributeError"
# match = "'HybridCache' object has no attribute 'float'"
# where = "accelerate.utils.operations:convert_to_fp32.<locals>._convert_to_fp32"
# fixed-by = "https://github.com/huggingface/transformers/pull/37044"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.50,<4.51"]
# precisions = ["bf16", "fp16"]
# workarounds = ["outer-cache-off", "never-save"]
# raises = "AttributeError"
# match = "'HybridCache' object has no attribute 'float'"
# where = "accelerate.utils.operations:convert_to_fp32.<locals>._convert_to_fp32"
# fixed-by = "https://github.com/huggingface/transformers/pull/37044"
# note = "The text model reads text_config only, and the evaluation fails before anything is saved."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/36814"
# says = "LoRA fails in bf16 and in fp16."
# when = ["transformers==4.50.0"]
# precisions = ["bf16", "fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/36814"
# says = "In fp32 nothing fails."
# when = ["transformers==4.50.0"]
# precisions = ["fp32"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/36814"
# says = "The error comes from saving the checkpoint, so a run that saves none has no error."
# when = ["transformers==4.50.0"]
# precisions = ["bf16", "fp16"]
# workaround = "never-save"
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/36814"
# says = "Adding use_cache = false to text_config in config.json avoids it."
# when = ["transformers==4.50.0"]
# precisions = ["bf16", "fp16"]
# workaround = "text-cache-off"
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/hiyouga/LlamaFactory/issues/7563"
# says = "It happens in the evaluation only."
# when = ["transformers==4.50.0"]
# precisions = ["bf16", "fp16"]
# workaround = "never-evaluate"
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/unslothai/unsloth/issues/2223"
# says = "use_cache = false at the top of config.json does not help."
# when = ["transformers==4.50.0"]
# precisions = ["bf16"]
# workaround = "outer-cache-off"
# outcome = "fails"
# ///
"""Fine-tuning Gemma 3 with LoRA in 16 bit must leave a checkpoint with the adapter behind.

At a step where both are due the Trainer evaluates first, then saves. The evaluation returns a
HybridCache, whose `dtype` makes accelerate call a .float() that it did not have, so the checkpoint
is missing though saving works. The config.json that the model is built from can turn the cache off.
On a CPU accelerate knows only bf16 mixed precision: fp16 weights run in that, autocast off
and nothing scaled.
"""

import json
import os
import sys
from pathlib import Path

import torch
from accelerate import AutocastKwargs
from peft import LoraConfig, get_peft_model
from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Trainer, TrainingArguments

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
ON_CPU = os.environ.get("REPRO_DEVICE", "cpu") == "cpu"
TEXT = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
VISION = {"hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 1, "image_size": 32}
measured = {}


def main(precision: str, workaround: str | None = None) -> None:
    """Train one step, after which an evaluation and a checkpoint are due."""
    torch.manual_seed(0)
    config = Gemma3Config(text_config=TEXT, vision_config=VISION, mm_tokens_per_image=4)
    config.save_pretrained("base")
    file = Path("base/config.json")
    written = json.loads(file.read_text())
    parts = {"text-cache-off": [written["text_config"]], "outer-cache-off": [written]}
    parts |= {None: [], "never-evaluate": [], "never-save": []}
    for part in parts[workaround]:
        part["use_cache"] = False
    file.write_text(json.dumps(written))
    base = Gemma3ForConditionalGeneration(Gemma3Config.from_pretrained("base"))
    model = get_peft_model(base.to(DTYPES[precision]), LoraConfig(target_modules=["up_proj"]))

    ids = torch.randint(5, 90, (8,))
    rows = [{"input_ids": ids, "labels": ids, "token_type_ids": torch.zeros_like(ids)}]
    plan = {"max_steps": 1, "eval_steps": 1, "save_steps": 1, "label_names": ["labels"]}
    plan["eval_strategy"] = "no" if workaround == "never-evaluate" else "steps"
    plan["save_strategy"] = "no" if workaround == "never-save" else "steps"
    quiet = {"report_to": "none", "disable_tqdm": True}
    mixed = {"use_cpu": ON_CPU, "fp16": precision == "fp16" and not ON_CPU}
    mixed["bf16"] = precision != "fp32" and not mixed["fp16"]
    arguments = TrainingArguments("out", **mixed, **plan, **quiet)
    trainer = Trainer(model, arguments, train_dataset=rows, eval_dataset=rows)
    if ON_CPU:
        trainer.accelerator.autocast_handler = AutocastKwargs(enabled=precision != "fp16")
    adapter = Path("out/checkpoint-1/adapter_model.safetensors")
    try:
        trainer.train()
    finally:
        measured["saved"] = float(adapter.exists())
    assert measured["saved"] or workaround == "never-save", "the checkpoint holds no adapter"


if __name__ == "__main__":
    main(*sys.argv[1:])
