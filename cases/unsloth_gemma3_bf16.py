# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.50", "unsloth>=2025.3", "trl", "datasets"]
#
# [tool.repromatrix]
# title = "Unsloth Gemma 3 bf16 evaluation: 'HybridCache' object has no attribute 'float'"
# reports = [
#     "https://github.com/unslothai/unsloth/issues/2052",
#     "https://github.com/unslothai/unsloth/issues/2419",
# ]
# area = "kv-cache"
# models = ["gemma3"]
# trigger = ["load", "trainer"]
# symptom = ["error"]
# needs = ["cuda"]
# isolation = "process"
# timeout = 300
#
# [tool.repromatrix.workarounds]
# cache-off = "Set config.use_cache = False before training."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.50,<4.51"]
# precisions = ["bf16"]
# raises = "AttributeError"
# match = "'HybridCache' object has no attribute 'float'"
# note = "Reported with 4.50.3 and Unsloth 2025.3.19; not measured yet: it takes a GPU."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/unslothai/unsloth/issues/2419"
# says = "Unsloth 2025.3.19 with transformers 4.50.3 fails."
# when = ["unsloth==2025.3.19"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""Unsloth's trainer must get Gemma 3 past an evaluation in bf16.

It did not: what the evaluation returns beside the logits is a cache, of which accelerate calls
.float(). Unsloth compiles what it patches, which takes its time; it refuses to be imported
without a GPU. Nobody has measured this case yet.
"""

import sys

from unsloth import FastModel  # isort: skip - it patches what the others import
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

SIZES = {"vocab_size": 99, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
WORDS = {"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3, "red": 4, "green": 5}
STEPS = {"max_steps": 1, "eval_strategy": "steps", "eval_steps": 1, "report_to": "none"}


def write_model(folder: str) -> None:
    words = Tokenizer(models.WordLevel(WORDS, unk_token="<unk>"))  # noqa: S106 - a word
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {f"{name}_token": f"<{name}>" for name in ("pad", "eos", "bos", "unk")}
    PreTrainedTokenizerFast(tokenizer_object=words, **names).save_pretrained(folder)
    model = Gemma3ForCausalLM(Gemma3TextConfig(**SIZES, **HEADS)).to(torch.bfloat16)
    model.save_pretrained(folder)


def main(precision: str, workaround: str = "") -> None:
    torch.manual_seed(0)
    if precision != "bf16":
        sys.exit(125)  # the report is about bf16 alone
    write_model("tiny")
    model, tokenizer = FastModel.from_pretrained(
        "tiny", max_seq_length=16, dtype=torch.bfloat16, load_in_4bit=False
    )
    model = FastModel.get_peft_model(model, r=4)
    model.config.use_cache = workaround != "cache-off"
    rows = Dataset.from_dict({"text": ["red green red"] * 4})
    arguments = SFTConfig("out", bf16=True, dataset_text_field="text", **STEPS)
    SFTTrainer(
        model, args=arguments, train_dataset=rows, eval_dataset=rows, processing_class=tokenizer
    ).train()


if __name__ == "__main__":
    main(*sys.argv[1:])
