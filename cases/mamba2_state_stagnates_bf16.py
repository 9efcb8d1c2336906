# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "Mamba-2 in bf16 ignores new tokens after a long prompt: state cache is rounded"
# reports = []
# found-by = "measurement"
# area = "state-space"
# models = ["mamba2"]
# trigger = ["load", "cast", "generate"]
# symptom = ["wrong-numbers"]
# simulates = """
# The decay of the state is set to almost none and the token is always the same, so that the state \
# must grow by one part in 512 per token; all weights are random."""
#
# [tool.repromatrix.workarounds]
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# autocast = '''
# model.to(torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model(ids, cache_params=cache, use_cache=True)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<5.14"]
# precisions = ["bf16"]
# raises = "AssertionError"
# match = "new tokens do not reach the state"
# where = "mamba2_state_stagnates_bf16:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/47347"
# note = "Silent. fp16 has three more bits of precision and passes."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.5,<5.14"]
# precisions = ["bf16"]
# workarounds = ["autocast"]
# raises = "AssertionError"
# match = "new tokens do not reach the state"
# where = "mamba2_state_stagnates_bf16:main"
# note = "Until 5.4 the cache had the dtype of the weights, which is fp32 under autocast."
# trigger = ["autocast", "generate"]
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.18"]
# precisions = ["bf16"]
# workarounds = ["autocast"]
# raises = "AssertionError"
# match = "new tokens do not reach the state"
# where = "mamba2_state_stagnates_bf16:main"
# note = "Fixed in 5.14 and broken again in 5.18."
# trigger = ["autocast", "generate"]
# ///
"""Tokens that Mamba-2 decodes one by one must change its state as those of the prompt do.

Until 5.13 they did not in bf16: the prompt is summed in fp32, but the cache held the sum in the
dtype of the model, and an update below half a unit in the last place of bf16 is lost, each time.
`missing_growth` is how far the growth is off, as a share of the expected one. The setting is
synthetic: almost no decay and one repeated token put every update just below that bound. Trained
models decay, so it shows the mechanism, not how much a checkpoint loses; no report is known.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import Mamba2Config, Mamba2Model

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 16, "num_hidden_layers": 1, "chunk_size": 64}
STATE = {"state_size": 8, "num_heads": 4, "head_dim": 8, "n_groups": 1, "initializer_range": 0.5}
PROMPT, NEW = 512, 64
WORKAROUNDS = {"", "autocast"}
measured: dict[str, float] = {}


def state(cache: object) -> torch.Tensor:
    return cache.layers[0].recurrent_states[0] if hasattr(cache, "layers") else cache.ssm_states[0]


def decode(model: Mamba2Model) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    ids = torch.full((1, PROMPT + NEW), 7, device=model.device)
    cache = model(ids[:, :PROMPT], use_cache=True).cache_params
    before = state(cache).float().clone()
    for at in torch.arange(PROMPT, PROMPT + NEW, device=model.device)[:, None]:
        out = model(ids[:, at], cache_params=cache, use_cache=True, cache_position=at)
    return before, state(cache).float(), out.last_hidden_state.float()


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    autocast = workaround == "autocast"
    model = Mamba2Model(Mamba2Config(**SIZES, **STATE)).eval()
    model.layers[0].mixer.A_log.fill_(-12)
    model.layers[0].mixer.dt_bias.fill_(-2)
    _, _, exact = decode(model.to(device))
    model.to(torch.float32 if autocast else dtype)
    with torch.autocast(device, dtype) if autocast else nullcontext():
        before, after, output = decode(model)
    grown = (after - before).flatten() @ before.flatten() / before.square().sum()
    measured["output_relative_error"] = ((output - exact).norm() / exact.norm()).item()
    measured["missing_growth"] = abs(1 - grown.item() * PROMPT / NEW)
    assert measured["missing_growth"] < 0.3, "new tokens do not reach the state"


if __name__ == "__main__":
    main(*sys.argv[1:])
