# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.56", "trl>=0.25", "bitsandbytes>=0.48", "peft>=0.17"]
#
# [tool.repromatrix]
# title = "trl casts the adapter of a 4-bit model to bf16 also where training is fp16 or fp32"
# reports = ["https://github.com/unslothai/unsloth/pull/4005"]
# area = "trainer"
# models = "any"
# shown-with = ["llama"]
# concerns = "Adapters of models in 4 or 8 bit that a trainer of trl trains in fp16 or fp32."
# trigger = ["trainer", "adapter"]
# symptom = ["wrong-dtype"]
# timeout = 180
#
# [tool.repromatrix.workarounds]
# cast-adapter = "Cast what is trained to fp32 after the trainer was made."
#
# [tool.repromatrix.snippets]
# cast-adapter = '''
# for parameter in trained:  # those that require a gradient, once trainer is made
#     parameter.data = parameter.data.float()'''
#
# [[tool.repromatrix.fails]]
# when = ["trl>=0.26"]
# precisions = ["fp32", "fp16"]
# raises = "AssertionError"
# match = "adapters are in bf16"
# where = "trl_qlora_adapter_bf16:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/unslothai/unsloth/pull/4005"
# says = "trl casts trained parameters to bf16 whatever the precision; fp16 needs them in fp32."
# when = ["trl>=0.26"]
# precisions = ["fp16"]
# outcome = "fails"
# ///
"""An adapter of a 4-bit model must stay in fp32 where training is not bf16.

trl casts it to bf16, as QLoRA does in bf16, and asks no longer whether `bf16` is set. With `fp16`
on a GPU the first step raises, as the scaler of gradients knows no bf16; a CPU has no scaler, and
small steps are rounded away without a word.
"""

import os
import sys

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
SIZES |= {"num_attention_heads": 2, "num_key_value_heads": 2}
OPTIONS = {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "max_steps": 1}
WORKAROUNDS = {"", "cast-adapter"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    LlamaForCausalLM(LlamaConfig(**SIZES)).save_pretrained("model")
    four = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=dtype)
    kinds = {"dtype": dtype, "quantization_config": four, "device_map": device}
    words = Tokenizer(WordLevel({"?": 0, "-": 1, "!": 2}, "?"))
    names = {"unk_token": "?", "pad_token": "-", "eos_token": "!"}
    halves = {"bf16": precision == "bf16", "fp16": precision == "fp16"}
    trainer = SFTTrainer(
        LlamaForCausalLM.from_pretrained("model", **kinds),
        SFTConfig("out", use_cpu=device == "cpu", **halves, **OPTIONS),
        train_dataset=Dataset.from_dict({"input_ids": [[3, 4, 5, 6]] * 2}),
        processing_class=PreTrainedTokenizerFast(tokenizer_object=words, **names),
        peft_config=LoraConfig(target_modules=["q_proj", "v_proj"]),
    )
    trained = [one for one in trainer.model.parameters() if one.requires_grad]
    if workaround == "cast-adapter":
        for one in trained:
            one.data = one.data.float()
    trainer.train()
    halved = [one for one in trained if one.dtype != torch.float32]
    assert trained, "nothing is trained"
    assert halves["bf16"] or not halved, f"{len(halved)} of {len(trained)} adapters are in bf16"


if __name__ == "__main__":
    main(*sys.argv[1:])
