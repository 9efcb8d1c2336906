# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.56", "trl>=0.25"]
#
# [tool.repromatrix]
# title = "trl's GRPO: cast_lm_head_to_fp32 does not reach logits under autocast"
# found-by = "measurement"
# reports = ["https://github.com/huggingface/trl/pull/4303"]
# area = "trainer"
# models = "any"
# shown-with = ["llama"]
# concerns = "Models that GRPOTrainer trains with cast_lm_head_to_fp32 and bf16, its default."
# trigger = ["trainer", "autocast"]
# symptom = ["wrong-dtype"]
# timeout = 180
#
# [tool.repromatrix.workarounds]
# weights-16bit = "Load the weights in 16 bit and train without autocast."
# no-autocast = "Call the head with autocast disabled."
#
# [tool.repromatrix.snippets]
# weights-16bit = '''
# config = GRPOConfig(folder, cast_lm_head_to_fp32=True, bf16=False, fp16=False)
# # and a model that is loaded in 16 bit'''
# no-autocast = '''
# head = trainer.model.lm_head
# head.forward = torch.autocast(device, enabled=False)(head.forward)'''
#
# [[tool.repromatrix.fails]]
# when = ["trl<1.16"]
# precisions = ["bf16"]
# raises = "AssertionError"
# match = "in place of fp32"
# where = "trl_grpo_head_fp32_autocast:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/trl/pull/4303"
# says = "The option computes logits in fp32."
# precisions = ["bf16"]
# outcome = "passes"
# ///
"""GRPO with cast_lm_head_to_fp32 must compute logits in fp32.

The option makes the weights of the head fp32 and casts what the head is given. Mixed precision
wraps the model in autocast, which casts both back to bf16 before it multiplies, so that the option
changes nothing with `bf16=True`, the default of the trainers of trl. Looked at is what the head
returns in training; where trl multiplies without calling it, the case ends with 125.
"""

import os
import sys

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
SIZES |= {"num_attention_heads": 2, "num_key_value_heads": 2}
OPTIONS = {"num_generations": 2, "per_device_train_batch_size": 2, "max_completion_length": 4}
OPTIONS |= {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "max_steps": 1}
WORKAROUNDS = {"", "weights-16bit", "no-autocast"}


def reward(completions: list[str], **_: object) -> list[float]:
    return [float(len(text)) for text in completions]


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    names = {"unk_token": "?", "pad_token": "-", "eos_token": "!"}
    names |= {"model_input_names": ["input_ids", "attention_mask"]}
    words = Tokenizer(WordLevel({word: at for at, word in enumerate("?-!")}, "?"))
    mixed = workaround != "weights-16bit"
    LlamaForCausalLM(LlamaConfig(**SIZES)).to(torch.float32 if mixed else dtype).save_pretrained(
        "m"
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **names)
    config = GRPOConfig(
        "out",
        use_cpu=device == "cpu",
        cast_lm_head_to_fp32=True,
        bf16=mixed and precision == "bf16",
        fp16=mixed and precision == "fp16",
        **OPTIONS,
    )
    model = LlamaForCausalLM.from_pretrained("m", dtype="auto")
    data = Dataset.from_dict({"prompt": ["a"] * 2})
    trainer = GRPOTrainer(model, reward, config, data, processing_class=tokenizer)
    head, dtypes = trainer.model.lm_head, []
    if workaround == "no-autocast":
        head.forward = torch.autocast(device, enabled=False)(head.forward)
    head.register_forward_hook(lambda *_: dtypes.append(_[2].dtype) if _[2].requires_grad else None)
    trainer.train()
    if not dtypes:
        sys.exit(125)  # the logits are computed elsewhere
    others = [one for one in dtypes if one != torch.float32]
    assert not others, f"{len(others)} of {len(dtypes)} logits are {others[0]} in place of fp32"


if __name__ == "__main__":
    main(*sys.argv[1:])
