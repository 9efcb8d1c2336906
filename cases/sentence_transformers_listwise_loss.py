# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "sentence-transformers>=5.1"]
#
# [tool.repromatrix]
# title = "sentence-transformers: listwise losses of a 16-bit reranker raise: Index put"
# reports = [
#     "https://github.com/huggingface/sentence-transformers/issues/3793",
#     "https://github.com/huggingface/sentence-transformers/pull/3800",
# ]
# area = "trainer"
# models = "any"
# shown-with = ["bert"]
# concerns = """
# Rerankers in 16 bit that are trained with ListNetLoss, LambdaLoss, PListMLELoss or, where there is \
# one, ADRMSELoss."""
# trigger = ["backward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-scores = "Pass an activation function that casts the scores to fp32."
#
# [tool.repromatrix.snippets]
# cast-scores = "loss = ListNetLoss(model, activation_fn=torch.Tensor.float)"
#
# [[tool.repromatrix.fails]]
# when = ["sentence-transformers<5.6"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = "Index put requires the source and destination dtypes match"
# where = [
#     "sentence_transformers.cross_encoder.losses.ListNetLoss:ListNetLoss.forward",
#     "sentence_transformers.cross_encoder.losses.list_net:ListNetLoss.forward",
# ]
# fixed-by = "https://github.com/huggingface/sentence-transformers/pull/3800"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/sentence-transformers/issues/3793"
# says = "A listwise loss of a reranker in bfloat16 raises: Index put requires one dtype."
# when = ["sentence-transformers<5.6"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/sentence-transformers/pull/3800"
# says = "Casting the scores to fp32 fixes it for bf16 and fp16."
# when = ["sentence-transformers>=6"]
# precisions = ["bf16", "fp16"]
# outcome = "passes"
# ///
"""A 16-bit reranker must be trainable with a listwise loss.

These losses put the scores of all documents of a query into a matrix that is padded. It was made in
the default dtype, fp32, and torch refuses to put 16-bit scores into it.
"""

import os
import sys

import torch
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder.losses import ListNetLoss
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "cast-scores"}
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 99}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    words = Tokenizer(WordLevel({"[UNK]": 0, "[PAD]": 1, "a": 2, "b": 3}, "[UNK]"))
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "model_max_length": 16}
    PreTrainedTokenizerFast(tokenizer_object=words, **names).save_pretrained("bert")
    config = BertConfig(**SIZES, num_attention_heads=4, num_labels=1)
    BertForSequenceClassification(config).save_pretrained("bert")
    model = CrossEncoder("bert", device=device, model_kwargs={"torch_dtype": dtype})
    loss = ListNetLoss(model, **({"activation_fn": torch.Tensor.float} if workaround else {}))
    labels = [torch.tensor([1.0, 0.0], device=device)]
    value = loss([["a"], [["a", "b"]]], labels)
    value.backward()
    gradients = [one.grad for one in model.parameters() if one.grad is not None]
    assert gradients, "nothing has a gradient"
    assert all(one.isfinite().all() for one in gradients), "gradients are not finite"


if __name__ == "__main__":
    main(*sys.argv[1:])
