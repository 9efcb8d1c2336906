# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.4"]
#
# [tool.repromatrix]
# title = "Gradient accumulation in the Trainer divides the gradients by its steps twice"
# reports = [
#     "https://github.com/huggingface/transformers/issues/45305",
#     "https://github.com/huggingface/transformers/pull/45349",
# ]
# area = "trainer"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model whose forward takes loss arguments and that the Trainer trains with \
# gradient_accumulation_steps > 1, in any precision."""
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
# when = ["transformers>=5.2,<5.5.4"]
# raises = "AssertionError"
# match = "accumulation changes the gradients' norm"
# where = "trainer_accumulation_divides_twice:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/45349"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/45349"
# says = "Accelerate divides once more by the steps."
# when = ["transformers>=5.2,<5.5.4"]
# outcome = "fails"
# ///
"""The Trainer's gradients must not depend on how many steps of accumulation make up a batch.

A loss that is given the number of tokens of the whole batch is divided already, and so accelerate
must not divide it by the steps: it was told of one step, and from 5.2 on of all of them. Compared
are four parts of two texts with the eight texts at once.
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
            per_device_train_batch_size=8 // steps,
            gradient_accumulation_steps=steps,
            **OPTIONS,
        )
        trainer = Trainer(model, args, train_dataset=data)
        trainer.train()
        norms.append(next(row["grad_norm"] for row in trainer.state.log_history))
    measured["ratio"] = float(norms[1] / norms[0])
    measured["output_relative_error"] = abs(measured["ratio"] - 1)
    assert measured["output_relative_error"] < 0.1, "accumulation changes the gradients' norm"


if __name__ == "__main__":
    main(*sys.argv[1:])
