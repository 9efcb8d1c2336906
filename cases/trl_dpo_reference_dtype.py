# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.56", "trl>=0.25"]
#
# [tool.repromatrix]
# title = "trl's DPO compares a 16-bit policy with a reference that is loaded in fp32"
# reports = ["https://github.com/oumi-ai/oumi/pull/2673"]
# area = "trainer"
# models = "any"
# shown-with = ["llama"]
# concerns = "Models that are loaded in 16 bit and given to DPOTrainer without a reference."
# trigger = ["trainer"]
# symptom = ["wrong-numbers"]
# timeout = 180
#
# [tool.repromatrix.workarounds]
# pass-reference = "Pass a reference model that is loaded in the dtype of the policy."
# model-init-kwargs = "Pass model_init_kwargs with the dtype of the policy."
#
# [tool.repromatrix.snippets]
# pass-reference = '''
# reference = LlamaForCausalLM.from_pretrained(name, dtype=dtype)
# trainer = DPOTrainer(model, reference, args=args, train_dataset=rows)'''
# model-init-kwargs = 'args = DPOConfig(folder, model_init_kwargs={"dtype": dtype})'
#
# [[tool.repromatrix.fails]]
# when = ["trl>=0.29,<1.16"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "before anything was learnt"
# where = "trl_dpo_reference_dtype:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/oumi-ai/oumi/pull/2673"
# says = "trl loads the reference in fp32 by default where the policy uses a lower dtype."
# when = ["trl>=0.29,<1.16"]
# precisions = ["bf16", "fp16"]
# outcome = "fails"
# ///
"""At the first step of DPO a policy must get the log probabilities of its reference.

The reference is loaded once more from the path of the policy, with the trainer's default dtype and
not that of the policy: its logits are not rounded, those of the policy are. A reward margin that
nothing has learnt is part of the loss from the first step on, and the reference takes twice the
memory of the policy.
"""

import os
import sys

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
SIZES |= {"num_attention_heads": 2, "num_key_value_heads": 2, "initializer_range": 0.3}
OPTIONS = {"max_steps": 1, "logging_steps": 1, "learning_rate": 0.0, "fp16": False, "bf16": False}
OPTIONS |= {"save_strategy": "no", "report_to": "none", "disable_tqdm": True}
WORKAROUNDS = {"", "pass-reference", "model-init-kwargs"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    LlamaForCausalLM(LlamaConfig(**SIZES)).to(dtype).save_pretrained("model")
    names = {"unk_token": "?", "pad_token": "-", "eos_token": "!"}
    words = Tokenizer(WordLevel({word: at for at, word in enumerate("?-!abcdefgh")}, "?"))
    words.pre_tokenizer = Whitespace()
    asked = {"dtype": dtype} if workaround == "model-init-kwargs" else None
    args = DPOConfig("out", use_cpu=device == "cpu", model_init_kwargs=asked, **OPTIONS)
    pair = {"prompt": "a b", "chosen": " c d e f g h", "rejected": " h g f e d c"}
    load = LlamaForCausalLM.from_pretrained
    trainer = DPOTrainer(
        load("model", dtype=dtype),
        load("model", dtype=dtype) if workaround == "pass-reference" else None,
        args=args,
        train_dataset=Dataset.from_list([pair] * 2),
        processing_class=PreTrainedTokenizerFast(tokenizer_object=words, **names),
    )
    trainer.train()
    measured["margin"] = trainer.state.log_history[0]["rewards/margins"]
    ids = torch.arange(3, 11, device=device)[None]
    policy, reference = (model(ids).logits.float() for model in (trainer.model, trainer.ref_model))
    measured["logits_relative_error"] = ((policy - reference).norm() / policy.norm()).item()
    assert measured["logits_relative_error"] < 1e-5, (
        f"the margin is {measured['margin']:.5f} before anything was learnt"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
