# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.55"]
#
# [tool.repromatrix]
# title = "MM Grounding DINO loads the box heads of its first decoder layer into all others"
# reports = []
# found-by = "sweep"
# area = "loading"
# models = ["mm-grounding-dino"]
# trigger = ["load"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# restore-heads = "Give each later layer a copy of its head, with the weights of the checkpoint."
#
# [tool.repromatrix.snippets]
# restore-heads = '''
# head = copy.deepcopy(model.bbox_embed[1])
# # and head.load_state_dict what the checkpoint has of this layer
# model.bbox_embed[1] = model.model.decoder.bbox_embed[1] = head'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0.0"]
# raises = "AssertionError"
# match = "the head of a later layer is another one"
# where = "mm_grounding_dino_heads_load:main"
# ///
"""MM Grounding DINO must have the box heads that its checkpoint holds, one for each decoder layer.

Until 4.57 each layer has a head of its own, and trained ones differ. Since 5.0
`MMGroundingDinoForObjectDetection._tied_weights_keys` ties all of them to the first, as those of
Grounding DINO may be: what a checkpoint of 4.x holds for the others is dropped in silence. Only a
head is run here, with random weights.
"""

import copy
import os
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import MMGroundingDinoConfig, MMGroundingDinoForObjectDetection, SwinConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
STAGES = {"depths": [1, 1, 1, 1], "num_heads": [1, 1, 1, 1], "embed_dim": 8, "window_size": 2}
LEVELS = {"image_size": 32, "patch_size": 4, "out_features": ["stage2", "stage3", "stage4"]}
TEXT = {"model_type": "bert", "vocab_size": 99, "hidden_size": 16, "intermediate_size": 32}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 2}
SIZES = {"d_model": 32, "num_queries": 5, "encoder_layers": 1, "decoder_layers": 2}
WIDTHS = {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
OF_4_X = "model.decoder.bbox_embed.1."
WORKAROUNDS = {"", "restore-heads"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    parts = {"backbone_config": SwinConfig(**STAGES, **LEVELS), "text_config": {**TEXT, **LAYERS}}
    config = MMGroundingDinoConfig(**parts, **SIZES, **WIDTHS, **HEADS)
    model = MMGroundingDinoForObjectDetection(config).to(dtype)
    other = ("bbox_embed.1.", "model.decoder.bbox_embed.0.")
    weights = {n: w.clone() for n, w in model.state_dict().items() if not n.startswith(other)}
    for name in (name for name in weights if name.startswith(OF_4_X)):
        weights[name].normal_(std=0.5)  # as trained apart
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        save_file(weights, Path(folder) / "model.safetensors", metadata={"format": "pt"})
        loaded = MMGroundingDinoForObjectDetection.from_pretrained(folder, torch_dtype=dtype)
    head = copy.deepcopy(loaded.bbox_embed[1])
    mine = {n.removeprefix(OF_4_X): w for n, w in weights.items() if n.startswith(OF_4_X)}
    head.load_state_dict(mine)
    if workaround == "restore-heads":
        loaded.bbox_embed[1] = loaded.model.decoder.bbox_embed[1] = head
    states = torch.randn(1, 5, config.d_model, device=device, dtype=dtype)
    exact = head.to(device)(states).double()
    found = loaded.to(device).bbox_embed[1](states).double()
    measured["output_relative_error"] = ((found - exact).norm() / exact.norm()).item()
    assert measured["output_relative_error"] < 0.1, "the head of a later layer is another one"


if __name__ == "__main__":
    main(*sys.argv[1:])
