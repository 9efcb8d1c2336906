# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "RoBERTa for masked language modelling loses the bias of its head when it is loaded"
# reports = []
# found-by = "sweep"
# area = "loading"
# models = ["roberta"]
# same-code = [
#     "camembert", "data2vec-text", "ibert", "longformer", "xlm-roberta", "xlm-roberta-xl",
# ]
# trigger = ["load"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# low-memory = "Pass low_cpu_mem_usage=True to from_pretrained."
# cast-after-load = "Load in a dtype that the checkpoint is not in, and cast the loaded model."
#
# [tool.repromatrix.snippets]
# low-memory = "model = RobertaForMaskedLM.from_pretrained(name, low_cpu_mem_usage=True)"
# cast-after-load = '''
# model = RobertaForMaskedLM.from_pretrained(name, torch_dtype=torch.float32)
# # and then model.to(dtype); for a checkpoint in fp32 load in torch.float64'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0,<4.51.0"]
# raises = "AssertionError"
# match = "the loaded model gives other logits"
# where = "roberta_head_bias_load:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/36963"
# ///
"""A saved RobertaForMaskedLM must give the same logits once it is loaded in its dtype.

Until 4.50 the bias of the head was lost: where the dtypes of checkpoint and model agree,
_load_state_dict_into_model assigns new parameters instead of copying, which replaces `lm_head.bias`
alone, and RobertaLMHead._tie_weights then overwrites it with `lm_head.decoder.bias`, still zero.
No key is reported as missing. Since 4.51 the model is on the meta device while it is loaded, and
the bias is tied the other way round. The bias is random here, so the error is not that of a
trained head.
"""

import os
import sys
import tempfile

import torch
from transformers import RobertaConfig, RobertaForMaskedLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
WORKAROUNDS = {"", "low-memory", "cast-after-load"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    saved = RobertaForMaskedLM(RobertaConfig(**SIZES, num_attention_heads=2)).to(dtype).eval()
    torch.nn.init.normal_(saved.lm_head.bias)
    load_dtype, options = dtype, {}
    if workaround == "cast-after-load":
        load_dtype = torch.float64 if dtype == torch.float32 else torch.float32
    if workaround == "low-memory":
        options["low_cpu_mem_usage"] = True
    with tempfile.TemporaryDirectory() as folder:
        saved.save_pretrained(folder)
        loaded = RobertaForMaskedLM.from_pretrained(folder, torch_dtype=load_dtype, **options)
    ids = torch.arange(5, 21, device=device)[None]
    exact = saved.to(device)(ids).logits.double()
    found = loaded.to(device, dtype)(ids).logits.double()
    measured["logits_relative_error"] = ((found - exact).norm() / exact.norm()).item()
    assert measured["logits_relative_error"] < 0.1, "the loaded model gives other logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
