# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "sentence-transformers>=5.1"]
#
# [tool.repromatrix]
# title = "sentence-transformers: the dtype of loading does not reach a Dense module"
# reports = [
#     "https://github.com/huggingface/sentence-transformers/issues/2887",
#     "https://github.com/huggingface/sentence-transformers/issues/2849",
# ]
# area = "loading"
# models = "any"
# shown-with = ["bert"]
# concerns = "Models with a Dense module after the pooling, as stella and the instructor models."
# trigger = ["load"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# half = "Cast the whole model after it was loaded, as with half()."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/sentence-transformers/issues/2887"
# says = "A model with a Dense module that is loaded in float16 cannot encode a text."
# precisions = ["fp16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/sentence-transformers/issues/2887"
# says = "Calling half() on the model fixes it."
# precisions = ["fp16"]
# workaround = "half"
# outcome = "passes"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/sentence-transformers/issues/2849"
# says = "An instructor model in bfloat16 raises a RuntimeError about two dtypes."
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""A model that ends in a Dense module must encode after it was loaded in 16 bit.

`model_kwargs={"torch_dtype": …}` is given to the transformer alone; a Dense module was saved in fp32
and is loaded so, and gets the 16-bit output of the pooling.
"""

import os
import sys

import torch
from sentence_transformers import SentenceTransformer, models
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 99}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in {"", "half"}, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    words = Tokenizer(WordLevel({"[UNK]": 0, "[PAD]": 1}, unk_token="[UNK]"))
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "model_max_length": 16}
    PreTrainedTokenizerFast(tokenizer_object=words, **names).save_pretrained("bert")
    BertModel(BertConfig(**SIZES, num_attention_heads=4)).save_pretrained("bert")
    parts = [models.Transformer("bert"), models.Pooling(32), models.Dense(32, 16)]
    SentenceTransformer(modules=parts, device="cpu").save("saved")
    model = SentenceTransformer("saved", device=device, model_kwargs={"torch_dtype": dtype})
    if workaround == "half":
        model.to(dtype)
    embedding = model.encode(["a sentence"], convert_to_tensor=True)
    assert embedding.dtype == dtype, f"the embedding is {embedding.dtype}"
    assert embedding.isfinite().all(), "the embedding is not finite"


if __name__ == "__main__":
    main(*sys.argv[1:])
