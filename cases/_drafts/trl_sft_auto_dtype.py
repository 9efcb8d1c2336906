# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.56", "trl>=0.25"]
#
# [tool.repromatrix]
# title = "trl 0.26 trains a model given by its path in the 16-bit dtype of its checkpoint"
# reports = [
#     "https://github.com/huggingface/trl/pull/4778",
#     "https://github.com/huggingface/trl/pull/4509",
#     "https://github.com/huggingface/trl/issues/3910",
# ]
# area = "trainer"
# models = "any"
# shown-with = ["llama"]
# concerns = "Every 16-bit checkpoint whose path is given to a trainer of trl."
# trigger = ["trainer", "load"]
# symptom = ["not-trained"]
# timeout = 180
#
# [tool.repromatrix.workarounds]
# load-fp32 = "Pass model_init_kwargs={'dtype': 'float32'}."
#
# [[tool.repromatrix.fails]]
# when = ["trl>=0.26,<0.27"]
# precisions = ["bf16"]
# raises = "AssertionError"
# match = "the loss fell from"
# where = "trl_sft_auto_dtype:main"
# fixed-by = "https://github.com/huggingface/trl/pull/4778"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/trl/pull/4778"
# says = "A trainer loads weights in fp32 unless another dtype is asked for."
# when = ["trl>=0.27"]
# precisions = ["bf16"]
# outcome = "passes"
# ///
"""SFT of a 16-bit checkpoint must change its weights at a usual learning rate.

Mixed precision computes in 16 bit and adds its steps to weights in fp32. A trainer that loads the
checkpoint in its own dtype has no weights in fp32: a step of 1e-5 is less than half the distance to
the next bf16 number, and rounding takes it away. The loss is compared outside of autocast, in fp32.
"""

import os
import sys

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 1}
SIZES |= {"num_attention_heads": 2, "num_key_value_heads": 2, "initializer_range": 0.3}
OPTIONS = {"max_steps": 10, "learning_rate": 1e-5, "lr_scheduler_type": "constant"}
OPTIONS |= {"save_strategy": "no", "report_to": "none", "disable_tqdm": True}
WORKAROUNDS = {"", "load-fp32"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    first = LlamaForCausalLM(LlamaConfig(**SIZES))
    first.to(dtype).save_pretrained("model")
    words = Tokenizer(WordLevel({"[UNK]": 0, "[PAD]": 1, "[EOS]": 2}, "[UNK]"))
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "eos_token": "[EOS]"}
    args = SFTConfig(
        "out",
        use_cpu=device == "cpu",
        bf16=precision == "bf16",
        fp16=precision == "fp16",
        model_init_kwargs={"dtype": "float32"} if workaround == "load-fp32" else None,
        **OPTIONS,
    )
    ids = torch.randint(3, 99, (4, 32))
    trainer = SFTTrainer(
        "model",
        args,
        train_dataset=Dataset.from_dict({"input_ids": ids.tolist()}),
        processing_class=PreTrainedTokenizerFast(tokenizer_object=words, **names),
    )
    trainer.train()
    last = LlamaForCausalLM(LlamaConfig(**SIZES))
    last.load_state_dict(trainer.model.state_dict())
    before, after = (model.float()(ids, labels=ids).loss.item() for model in (first, last))
    measured["loss_fall"] = 1 - after / before
    assert measured["loss_fall"] > 1e-3, f"the loss fell from {before:.4f} to {after:.4f} only"


if __name__ == "__main__":
    main(*sys.argv[1:])
