# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Mimi's quantizer in bf16 picks codebook entries that are not the nearest"
# reports = []
# found-by = "measurement"
# area = "audio-tower"
# models = ["mimi"]
# trigger = ["load", "cast", "forward"]
# symptom = ["wrong-numbers"]
# simulates = """
# A codebook and frames of random numbers stand in for trained codes and encoded audio."""
#
# [tool.repromatrix.workarounds]
# codebooks-fp32 = "Cast the codebooks and their inputs to fp32."
#
# [tool.repromatrix.snippets]
# codebooks-fp32 = '''
# codebook.float()
# codes = codebook.quantize(frames.float())'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<4.53"]
# precisions = ["bf16"]
# raises = "AssertionError"
# match = "codes are not the nearest ones"
# devices = ["cpu"]
# where = "mimi_nearest_code:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/38909"
# note = """
# About 3 % of the frames get an entry that is not the nearest, at most 1 % farther. fp16 has \
# enough precision here. On a GPU torch.cdist may have no 16-bit kernel at all."""
# ///
"""Mimi's quantizer must choose the entry of its codebook that is nearest to a frame of audio.

Until 4.52 distances were computed in the dtype of the codebook. In bf16 close distances become
equal, and the first entry wins. The reference is the distance of the same numbers in fp64;
`mean_excess` is how much farther than the nearest the chosen entries are. Since 4.53 distances are
computed in fp32. Codebook and frames are random, so the share of wrong entries is not that of
trained codes, and no audible difference is shown; no report is known.
"""

import os
import sys

import torch
from torch.nn.functional import layer_norm
from transformers import MimiConfig
from transformers.models.mimi.modeling_mimi import MimiEuclideanCodebook

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "codebooks-fp32"}
FRAMES, ENTRIES, SIZE = 2048, 1024, 32
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    codebook = MimiEuclideanCodebook(MimiConfig(codebook_size=ENTRIES, codebook_dim=SIZE))
    codebook.embed_sum.copy_(torch.randn(ENTRIES, SIZE))
    codebook.to(device, dtype)
    frames = layer_norm(torch.randn(FRAMES, SIZE, device=device, dtype=dtype), (SIZE,))
    if workaround == "codebooks-fp32":
        codebook.float()
        frames = frames.float()
    codes = codebook.quantize(frames)
    distances = torch.cdist(frames.double(), codebook.embed.double())
    chosen, nearest = distances.gather(1, codes[:, None])[:, 0], distances.amin(1)
    measured["tokens_changed"] = (chosen > nearest).float().mean().item()
    measured["largest_excess"] = (chosen / nearest).max().item() - 1
    measured["mean_excess"] = (chosen / nearest).mean().item() - 1
    assert measured["mean_excess"] < 1e-5, "codes are not the nearest ones"


if __name__ == "__main__":
    main(*sys.argv[1:])
