# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Output layers of CamemBERT, I-BERT and Mamba are random after loading: no longer tied"
# reports = ["https://github.com/huggingface/transformers/issues/44671"]
# found-by = "sweep"
# area = "loading"
# models = ["camembert", "ibert", "mamba"]
# variants = ["camembert", "ibert", "mamba"]
# trigger = ["load"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# tie-in-config = "Set tie_word_embeddings=True in the config."
#
# [tool.repromatrix.snippets]
# tie-in-config = "config.tie_word_embeddings = True"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0.0,<5.4.0"]
# variants = ["camembert"]
# raises = "AssertionError"
# match = "the output layer is not that of the checkpoint"
# where = "camembert_head_untied:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/44931"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0.0,<5.6.0"]
# variants = ["ibert"]
# raises = "AssertionError"
# match = "the output layer is not that of the checkpoint"
# where = "camembert_head_untied:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/44988"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0.0,<5.1.0"]
# variants = ["mamba"]
# raises = "AssertionError"
# match = "the output layer is not that of the checkpoint"
# where = "camembert_head_untied:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/43592"
# ///
"""A checkpoint without the output layer must be loaded with that layer tied to the embeddings.

5.0 took the default of tie_word_embeddings out of the base config. The configs of these models did
not set one, so that get_expanded_tied_weights_keys tied nothing and the output layer, which the
checkpoints of these models do not hold, was newly initialised. The load report calls it missing.
Mamba ties again in 5.1, CamemBERT in 5.4, I-BERT in 5.6.
"""

import os
import sys

import torch
from transformers import (
    CamembertConfig,
    CamembertForMaskedLM,
    IBertConfig,
    IBertForMaskedLM,
    MambaConfig,
    MambaForCausalLM,
)

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 16, "num_hidden_layers": 1}
BERT = {**SIZES, "intermediate_size": 32, "num_attention_heads": 2}
WORKAROUNDS = {"", "tie-in-config"}
VARIANTS = {
    "camembert": (CamembertConfig, CamembertForMaskedLM, BERT),
    "ibert": (IBertConfig, IBertForMaskedLM, BERT),
    "mamba": (MambaConfig, MambaForCausalLM, {**SIZES, "state_size": 4}),
}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config_class, model_class, sizes = VARIANTS[os.environ.get("REPRO_VARIANT", "camembert")]
    config = config_class(**sizes)
    if workaround == "tie-in-config":
        config.tie_word_embeddings = True
    model = model_class(config).to(dtype)
    head = next(n for n, m in model.named_modules() if m is model.get_output_embeddings())
    kept = {n: w for n, w in model.state_dict().items() if not n.startswith(f"{head}.")}
    loaded = model_class.from_pretrained(None, config=config, state_dict=kept, torch_dtype=dtype)
    loaded.to(device).eval()
    ids = torch.arange(5, 21, device=device)[None]
    found = loaded(ids).logits.double()
    loaded.get_output_embeddings().weight = loaded.get_input_embeddings().weight
    exact = loaded(ids).logits.double()
    measured["logits_relative_error"] = ((found - exact).norm() / exact.norm()).item()
    assert measured["logits_relative_error"] < 0.1, "the output layer is not that of the checkpoint"


if __name__ == "__main__":
    main(*sys.argv[1:])
