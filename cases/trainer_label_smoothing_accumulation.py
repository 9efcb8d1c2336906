# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.4"]
#
# [tool.repromatrix]
# title = "Label smoothing with gradient accumulation multiplies the gradients by its steps"
# reports = ["https://github.com/huggingface/transformers/issues/46731"]
# area = "trainer"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model whose forward takes loss arguments and that the Trainer trains with \
# label_smoothing_factor and gradient_accumulation_steps > 1, in any precision."""
# trigger = ["trainer"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# one-batch = { says = "Train on the whole batch at once, without accumulation.", skips = true }
#
# [tool.repromatrix.snippets]
# one-batch = '''
# options = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
# arguments = TrainingArguments(folder, **options)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers<5.2"]
# raises = "AssertionError"
# match = "accumulation changes the gradients' norm"
# where = "trainer_label_smoothing_accumulation:main"
# note = "5.2 to 5.5.3 (since #43919) divide by the steps where they should not, which hides it here."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.5.4,<5.15"]
# raises = "AssertionError"
# match = "accumulation changes the gradients' norm"
# where = "trainer_label_smoothing_accumulation:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/47261"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/46731"
# says = "It is not specific to a device, and is on main during the development of 5.13."
# when = ["transformers>=5.13,<5.14"]
# outcome = "fails"
# ///
"""The Trainer's gradients must not depend on how many steps of accumulation make up a batch.

A loss that is given the number of tokens of the whole batch is not divided by the steps. The label
smoother was not given it, and took the mean of each part, so that the sum of the gradients is too
large by the number of steps. Compared are four parts of two texts with the eight texts at once.
"""

import os
import sys

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
OPTIONS = {"max_steps": 1, "logging_steps": 1, "save_strategy": "no", "report_to": "none"}
OPTIONS |= {"disable_tqdm": True, "optim": "sgd", "learning_rate": 0.0}
WORKAROUNDS = {"", "one-batch"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES, **HEADS)).to(device, dtype)
    data = [{"input_ids": row, "labels": row} for row in torch.randint(5, 90, (8, 12))]
    norms = []
    for steps in (1, 1 if workaround == "one-batch" else 4):
        args = TrainingArguments(
            "out",
            use_cpu=device == "cpu",
            label_smoothing_factor=0.1,
            per_device_train_batch_size=8 // steps,
            gradient_accumulation_steps=steps,
            **OPTIONS,
        )
        trainer = Trainer(model, args, train_dataset=data)
        trainer.train()
        norms.append(next(row["grad_norm"] for row in trainer.state.log_history))
    measured["ratio"] = float(norms[1] / norms[0])
    measured["output_relative_error"] = abs(measured["ratio"] - 1)
    assert measured["output_relative_error"] < 0.3, "accumulation changes the gradients' norm"


if __name__ == "__main__":
    main(*sys.argv[1:])
