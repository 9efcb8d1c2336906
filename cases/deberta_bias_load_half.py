# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "DeBERTa loaded in bf16 or fp16 fails: q_bias and v_bias stay in fp32"
# reports = ["https://github.com/huggingface/transformers/issues/35332"]
# found-by = "sweep"
# area = "loading"
# models = ["deberta"]
# trigger = ["load", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-again = "Load in 16 bit, then call .to(dtype) on the loaded model."
#
# [tool.repromatrix.snippets]
# cast-again = "model.to(dtype)  # after from_pretrained"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "expected m1 and m2 to have the same dtype, but got: float != c10::BFloat16",
#     "expected m1 and m2 to have the same dtype, but got: float != c10::Half",
#     "expected scalar type Float but found BFloat16",
#     "expected scalar type Float but found Half",
# ]
# where = "transformers.models.deberta.modeling_deberta:DisentangledSelfAttention.forward"
# note = "https://github.com/huggingface/transformers/pull/35336 proposes to mend it."
# ///
"""DeBERTa loaded in bf16 or fp16 must run a forward pass.

`DisentangledSelfAttention.__init__` makes `q_bias` and `v_bias` with `dtype=torch.float`, so they
do not follow the default dtype that `from_pretrained` sets, and the loaded values are cast to the
dtype of the biases that they replace. Queries and values are then in fp32 and keys in 16 bit, and
the attention raises. A loaded model that is cast as a whole computes.
"""

import os
import sys
import tempfile

import torch
from transformers import DebertaConfig, DebertaForMaskedLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
WORKAROUNDS = {"", "cast-again"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = DebertaConfig(**SIZES, num_attention_heads=4)
    with tempfile.TemporaryDirectory() as folder:
        DebertaForMaskedLM(config).save_pretrained(folder)
        model = DebertaForMaskedLM.from_pretrained(folder, torch_dtype=dtype).to(device)
    if workaround == "cast-again":
        model.to(dtype)
    kept = [name for name, weight in model.named_parameters() if weight.dtype != dtype]
    measured["parameters_in_fp32"] = len(kept)
    ids = torch.randint(5, 90, (1, 8), device=device)
    logits = model.eval()(input_ids=ids).logits
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
