# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.50", "unsloth>=2025.3", "trl", "datasets"]
#
# [tool.repromatrix]
# title = "Unsloth Gemma 3: 'Model is in bfloat16 precision but you want to use float16'"
# reports = ["https://github.com/unslothai/unsloth/issues/2052"]
# area = "trainer"
# models = ["gemma3"]
# trigger = ["load", "trainer"]
# symptom = ["refused"]
# kind = "policy"
# needs = ["cuda"]
# isolation = "process"
# timeout = 300
#
# [[tool.repromatrix.fails]]
# precisions = ["fp16"]
# raises = "TypeError"
# match = "Unsloth: Model is in bfloat16 precision but you want to use float16 precision."
# note = "Read in unsloth/models/rl.py of 2025.3.19 and 2026.10.9, not measured."
# ///
"""Unsloth must say in words that it does not train in fp16 what it loaded in bf16.

On a GPU with bf16 it loads Gemma 3 in bf16 where nothing else is asked for, and its trainer
refuses `fp16=True` then, on purpose: Gemma 3's activations do not fit into fp16. It refuses to be
imported without a GPU. Nobody has measured this case yet.
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


def main(precision: str) -> None:
    torch.manual_seed(0)
    if not torch.cuda.is_bf16_supported():
        sys.exit(125)  # there it loads in another dtype and trains in fp32
    write_model("tiny")
    model, tokenizer = FastModel.from_pretrained("tiny", max_seq_length=16, load_in_4bit=False)
    model = FastModel.get_peft_model(model, r=4)
    rows = Dataset.from_dict({"text": ["red green red"] * 4})
    flags = {"bf16": precision == "bf16", "fp16": precision == "fp16"}
    arguments = SFTConfig("out", dataset_text_field="text", **flags, **STEPS)
    SFTTrainer(
        model, args=arguments, train_dataset=rows, eval_dataset=rows, processing_class=tokenizer
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
