# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Chinese-CLIP zeroes the embedding of the padding token when a checkpoint is loaded"
# reports = []
# found-by = "sweep"
# area = "loading"
# models = ["chinese-clip"]
# trigger = ["load", "forward"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# attention-mask = "Pass an attention mask, so that padding is not attended to."
# restore-row = "Copy the row of the padding token from the checkpoint into the loaded model."
#
# [tool.repromatrix.snippets]
# attention-mask = '''
# mask = (ids != 0).long()
# outputs = model(input_ids=ids, attention_mask=mask)'''
# restore-row = "model.embeddings.word_embeddings.weight[0] = row.to(dtype)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0.0"]
# raises = "AssertionError"
# match = "the loaded model computes something else"
# where = "chinese_clip_padding_row_load:main"
# ///
"""Chinese-CLIP's text model must compute the same once it was saved and loaded.

Since 5.0 `ChineseCLIPPreTrainedModel._init_weights` zeroes the row of the padding token in a slice
of the embeddings, which does not know that the weight was loaded, so the row of the checkpoint is
lost. Text that is padded and given without a mask attends to that row; a trained one is not zero.
"""

import os
import sys
import tempfile

import torch
from transformers import ChineseCLIPTextConfig, ChineseCLIPTextModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
CONFIG = {**SIZES, "num_attention_heads": 2, "initializer_range": 0.2}
WORKAROUNDS = {"", "attention-mask", "restore-row"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = ChineseCLIPTextModel(ChineseCLIPTextConfig(**CONFIG)).eval()
    row = model.embeddings.word_embeddings.weight[0].normal_(std=0.2)  # as a trained one
    model.to(dtype)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = ChineseCLIPTextModel.from_pretrained(folder, torch_dtype=dtype).eval()
    if workaround == "restore-row":
        loaded.embeddings.word_embeddings.weight[0] = row.to(dtype)
    ids = torch.randint(5, 90, (4, 12), device=device)
    ids[:, 6:] = 0
    mask = (ids != 0).long() if workaround == "attention-mask" else None
    exact, found = (
        one.to(device)(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0].float()
        for one in (model, loaded)
    )
    measured["output_relative_error"] = ((found - exact).norm() / exact.norm()).item()
    assert measured["output_relative_error"] < 0.01, "the loaded model computes something else"


if __name__ == "__main__":
    main(*sys.argv[1:])
