# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers"]
#
# [tool.repromatrix]
# title = "FNet in bf16 or fp16 is not supported on a CPU: torch.fft 'Unsupported dtype'"
# reports = ["https://github.com/huggingface/transformers/pull/13752"]
# found-by = "measurement"
# area = "missing-kernel"
# models = ["fnet"]
# trigger = ["load", "cast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# fourier-fp32 = "Upcast to fp32 before each Fourier transform and cast back after it."
# autocast = "Keep the weights in fp32 and run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# fourier-fp32 = '''
# for name, module in model.named_modules():
#     if name.endswith("fourier.self"):
#         module.register_forward_pre_hook(lambda _, args: (args[0].float(),))
#         module.register_forward_hook(lambda _, __, out: (out[0].to(dtype),))'''
# autocast = '''
# model.to(torch.float32)
# with torch.autocast(device, dtype):
#     outputs = model(**inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# precisions = ["bf16"]
# raises = "RuntimeError"
# match = "Unsupported dtype BFloat16"
# where = "transformers.models.fnet.modeling_fnet:FNetBasicFourierTransform.forward"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# precisions = ["fp16"]
# devices = ["cpu"]
# raises = "RuntimeError"
# match = "Unsupported dtype Half"
# where = "transformers.models.fnet.modeling_fnet:FNetBasicFourierTransform.forward"
# note = "torch.fft takes Half on CUDA, for lengths that are powers of two."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0"]
# precisions = ["bf16"]
# devices = ["cuda"]
# workarounds = ["autocast"]
# raises = "RuntimeError"
# match = "Unsupported dtype BFloat16"
# where = "transformers.models.fnet.modeling_fnet:FNetBasicFourierTransform.forward"
# note = "Autocast casts the input of fftn to fp32 on a CPU, not on CUDA."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/13752"
# says = "After model.half() everything but the buffers is in 16 bit, and nothing needs a change."
# precisions = ["fp16"]
# outcome = "passes"
# ///
"""FNet would have to run a forward pass in the dtype that it was cast to.

It does not on a CPU: torch.fft refuses bf16 and fp16 there, and FNet does not upcast its input.
No release passes. On CUDA torch.fft takes fp16 for lengths that are powers of two, never bf16.
The linked pull request added the model; it is no report of this failure.
"""

import os
import sys
from contextlib import nullcontext

import torch
from transformers import FNetConfig, FNetModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
WORKAROUNDS = {"", "fourier-fp32", "autocast"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    autocast = workaround == "autocast" and precision != "fp32"
    model = FNetModel(FNetConfig(**SIZES)).eval().to(device, torch.float32 if autocast else dtype)
    for name, module in model.named_modules():
        if workaround == "fourier-fp32" and name.endswith("fourier.self"):
            module.register_forward_pre_hook(lambda _, args: (args[0].float(),))
            module.register_forward_hook(lambda _, __, out: (out[0].to(dtype),))
    with torch.autocast(device, dtype) if autocast else nullcontext():
        states = model(torch.arange(5, 13, device=device)[None]).last_hidden_state
    assert states.isfinite().all(), "non-finite states"


if __name__ == "__main__":
    main(*sys.argv[1:])
