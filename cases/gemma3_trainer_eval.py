# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.50", "accelerate"]
#
# [tool.repromatrix]
# title = "Gemma 3 evaluation in the Trainer: 'HybridCache' object has no attribute 'float'"
# reports = [
#     "https://github.com/unslothai/unsloth/issues/2052",
#     "https://github.com/unslothai/unsloth/issues/2190",
#     "https://github.com/unslothai/unsloth/issues/2223",
#     "https://github.com/unslothai/unsloth/issues/2419",
#     "https://github.com/huggingface/transformers/issues/36814",
#     "https://github.com/hiyouga/LlamaFactory/issues/7373",
#     "https://github.com/hiyouga/LlamaFactory/issues/7563",
# ]
# area = "kv-cache"
# models = ["gemma3"]
# trigger = ["load", "cast", "trainer"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# outer-cache-off = "Set use_cache to False in model.config of the built model."
# text-cache-off = "Set use_cache to False in model.config.text_config of the built model."
# early-cache-off = "Set text_config.use_cache to False in the config that the model is built from."
# decoder-cache-off = "Set use_cache to False in the config of the inner language model."
#
# [tool.repromatrix.workarounds.never-evaluate]
# says = "Set eval_strategy to \"no\" (since 5.4.0 large eval_steps still evaluate at the end)."
# skips = true
#
# [tool.repromatrix.snippets]
# outer-cache-off = "model.config.use_cache = False"
# text-cache-off = "model.config.text_config.use_cache = False"
# early-cache-off = "config.text_config.use_cache = False  # before the model is built"
# decoder-cache-off = '''
# for name, module in model.named_modules():
#     if name.endswith("language_model"):
#         module.config.use_cache = False'''
# never-evaluate = 'arguments = TrainingArguments(folder, eval_strategy="no")'
#
# [[tool.repromatrix.fails]]
# at-fault = "transformers"
# when = ["transformers>=4.50,<4.51"]
# precisions = ["bf16", "fp16"]
# raises = "AttributeError"
# match = "'HybridCache' object has no attribute 'float'"
# where = "accelerate.utils.operations:convert_to_fp32.<locals>._convert_to_fp32"
# fixed-by = "https://github.com/huggingface/transformers/pull/37044"
#
# [[tool.repromatrix.fails]]
# at-fault = "transformers"
# when = ["transformers>=4.50,<4.51"]
# precisions = ["bf16", "fp16"]
# workarounds = ["outer-cache-off", "text-cache-off"]
# raises = "AttributeError"
# match = "'HybridCache' object has no attribute 'float'"
# where = "accelerate.utils.operations:convert_to_fp32.<locals>._convert_to_fp32"
# fixed-by = "https://github.com/huggingface/transformers/pull/37044"
# note = "The language model is built with a copy of text_config and reads only that."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/unslothai/unsloth/issues/2052"
# says = "Gemma 3 training fails in bf16."
# when = ["transformers==4.50.0"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/unslothai/unsloth/issues/2052"
# says = "model.config.use_cache = False before training is enough (said of a text-only 1B)."
# when = ["transformers==4.50.0"]
# precisions = ["bf16"]
# workaround = "outer-cache-off"
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/unslothai/unsloth/issues/2052"
# says = "Switching the cache off in the text model's own config avoids it."
# when = ["transformers==4.50.0"]
# precisions = ["bf16"]
# workaround = "decoder-cache-off"
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/unslothai/unsloth/issues/2190"
# says = "Fine-tuning fails on 4.50.0, in the evaluation."
# when = ["transformers==4.50.0"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/unslothai/unsloth/issues/2190"
# says = "Without an evaluation the training passes (the report sets eval_steps beyond the run)."
# when = ["transformers==4.50.0"]
# precisions = ["bf16"]
# workaround = "never-evaluate"
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/unslothai/unsloth/issues/2223"
# says = "use_cache = False in the general config does not help."
# when = ["transformers==4.50.0"]
# precisions = ["bf16"]
# workaround = "outer-cache-off"
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/unslothai/unsloth/issues/2223"
# says = "use_cache = False in text_config helps where the general config does not."
# when = ["transformers==4.50.0"]
# precisions = ["bf16"]
# workaround = "text-cache-off"
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/unslothai/unsloth/issues/2419"
# says = "4.50.3 still fails."
# when = ["transformers==4.50.3"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/36814"
# says = "use_cache = False in text_config of config.json avoids it."
# when = ["transformers==4.50.0"]
# precisions = ["bf16", "fp16"]
# workaround = "early-cache-off"
# outcome = "passes"
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
# says = "Fine-tuning fails in bf16 and in fp16 (with LoRA there)."
# when = ["transformers==4.50.0"]
# precisions = ["bf16", "fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/36814"
# says = "Saving the checkpoint raises the error, so a run that saves none, like this one, passes."
# when = ["transformers==4.50.0"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/hiyouga/LlamaFactory/issues/7563"
# says = "It happens in the evaluation only."
# when = ["transformers==4.50.0"]
# precisions = ["bf16", "fp16"]
# workaround = "never-evaluate"
# outcome = "passes"
# ///
"""Fine-tuning Gemma 3 with 16-bit weights must get past the evaluation after the first step.

In evaluation the text model returns a HybridCache beside the logits, and accelerate calls .float()
on every output with a 16-bit `dtype`: in 4.50 the cache has the attribute, not the method. With
LoRA no checkpoint is saved either, as the evaluation comes first. Only the config that the text
model reads can turn the cache off. fp32 parameters are trained, as in adapters, because GradScaler
refuses fp16 gradients. On a CPU accelerate has bf16 only: fp16 weights run with autocast off.
"""

import math
import os
import sys

import torch
from accelerate import AutocastKwargs
from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Trainer, TrainingArguments

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
ON_CPU = os.environ.get("REPRO_DEVICE", "cpu") == "cpu"
TEXT = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
VISION = {"hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 1, "image_size": 32}
measured = {}


def main(precision: str, workaround: str | None = None) -> None:
    """Train one step, then evaluate."""
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    config = Gemma3Config(text_config=TEXT, vision_config=VISION, mm_tokens_per_image=4)
    config.text_config.use_cache = workaround != "early-cache-off"
    model = (
        Gemma3ForConditionalGeneration(config)
        .to(DTYPES[precision])
        .requires_grad_(requires_grad=False)
    )
    next(m for name, m in model.named_modules() if name.endswith(".norm")).float().requires_grad_()
    decoder = next(m for name, m in model.named_modules() if name.endswith("language_model"))
    late = {
        "outer-cache-off": model.config,
        "text-cache-off": model.config.text_config,
        "decoder-cache-off": decoder.config,
    }
    if workaround in late:
        late[workaround].use_cache = False
    elif workaround not in {None, "early-cache-off", "never-evaluate"}:
        raise ValueError(workaround)

    ids = torch.randint(5, 90, (8,))
    rows = [{"input_ids": ids, "labels": ids, "token_type_ids": torch.zeros_like(ids)}]
    plan = {"max_steps": 1, "eval_steps": 1, "save_strategy": "no", "optim": "sgd"}
    plan["eval_strategy"] = "no" if workaround == "never-evaluate" else "steps"
    quiet = {"report_to": "none", "disable_tqdm": True}
    mixed = {"use_cpu": ON_CPU, "fp16": precision == "fp16" and not ON_CPU}
    mixed["bf16"] = precision != "fp32" and not mixed["fp16"]
    arguments = TrainingArguments("out", **mixed, **plan, **quiet)
    trainer = Trainer(model, arguments, train_dataset=rows, eval_dataset=rows)
    if ON_CPU:
        trainer.accelerator.autocast_handler = AutocastKwargs(enabled=precision != "fp16")
    trainer.train()
    for entry in trainer.state.log_history:
        measured.update({name: entry[name] for name in entry if name.endswith("_loss")})
    assert all(map(math.isfinite, measured.values())), "a loss is not finite"
    assert ("eval_loss" in measured) == (arguments.eval_strategy != "no"), "not evaluated as set"


if __name__ == "__main__":
    main(*sys.argv[1:])
