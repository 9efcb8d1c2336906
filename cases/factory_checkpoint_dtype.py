# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.52.4", "llamafactory>=0.9.3"]
#
# [tool.repromatrix]
# title = "LLaMA-Factory loads a model in the dtype of its checkpoint, not in the one asked for"
# reports = ["https://github.com/hiyouga/LlamaFactory/issues/8914"]
# area = "loading"
# models = "any"
# shown-with = ["llama"]
# concerns = "Every model that LLaMA-Factory loads from a checkpoint of another dtype."
# variants = ["chat", "lora"]
# trigger = ["load"]
# symptom = ["wrong-dtype"]
# timeout = 180
#
# [tool.repromatrix.workarounds]
# convert = "Convert the checkpoint to the dtype first, as llamafactory-cli export does."
#
# [tool.repromatrix.snippets]
# convert = "model.to(dtype).save_pretrained(folder)"
#
# [[tool.repromatrix.fails]]
# when = ["llamafactory>=0.9.4"]
# precisions = ["fp32", "bf16", "fp16"]
# raises = "AssertionError"
# match = "the model is not in the dtype that was asked for"
# where = "factory_checkpoint_dtype:main"
# note = """
# Since 0.9.4 the loader passes torch_dtype="auto", and no longer casts what is left in fp32 at \
# inference (pull requests 9665 and 9676). On a GPU the fp32 of training is not kept before either: \
# there 0.9.3 takes the 16-bit dtype of the checkpoint."""
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/hiyouga/LlamaFactory/issues/8914"
# says = "With fp32 chosen as the compute type, training loads the model in bfloat16."
# when = ["llamafactory>=0.9.4"]
# precisions = ["fp32"]
# outcome = "fails"
# ///
"""LLaMA-Factory must load a model in the dtype of `infer_dtype`, or of the precision of training.

The checkpoint is in another dtype. What LoRA does not train is looked at, and computes. Most of
the seconds are imports.
"""

import os
import sys

import torch
import transformers
from llamafactory.hparams import get_infer_args, get_train_args
from llamafactory.model import load_model
from tokenizers import Tokenizer, models

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 32}
TRAIN = {
    "stage": "sft",
    "do_train": True,
    "dataset": "any",
    "output_dir": "out",
    "report_to": "none",
}


def main(precision: str, workaround: str = "") -> None:
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    wanted = DTYPES[precision]
    other = torch.bfloat16 if precision == "fp32" else torch.float32
    stored = wanted if workaround == "convert" else other
    config = transformers.LlamaConfig(**SIZES, num_attention_heads=2, tie_word_embeddings=False)
    transformers.LlamaForCausalLM(config).to(stored).save_pretrained("tiny")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()))
    asked = {"model_name_or_path": "tiny", "template": "empty"}
    if os.environ.get("REPRO_VARIANT", "chat") == "chat":
        asked["infer_dtype"] = str(wanted).removeprefix("torch.")
        model_args, _, finetuning_args, _ = get_infer_args(asked)
        model = load_model(tokenizer, model_args, finetuning_args)
    else:
        asked |= TRAIN | {"use_cpu": not torch.cuda.is_available(), precision: True}
        asked.pop("fp32", None)
        model_args, _, _, finetuning_args, _ = get_train_args(asked)
        model = load_model(tokenizer, model_args, finetuning_args, is_trainable=True)
    frozen = next(weight for weight in model.parameters() if not weight.requires_grad)
    model(torch.arange(8, device=frozen.device)[None])
    assert frozen.dtype == wanted, "the model is not in the dtype that was asked for"


if __name__ == "__main__":
    main(*sys.argv[1:])
