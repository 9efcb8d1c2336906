# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.51"]
#
# [tool.repromatrix]
# title = "The decoder of a 16-bit T5 cannot be exported: its static cache is made in fp32"
# reports = ["https://github.com/huggingface/optimum-executorch/pull/173"]
# area = "kv-cache"
# models = ["t5"]
# trigger = ["load", "cast", "static-cache"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# cast-buffers = "Cast the floating-point buffers of the wrapped decoder in place before the export."
#
# [tool.repromatrix.snippets]
# cast-buffers = '''
# for buffer in wrapped.buffers():
#     if buffer.is_floating_point():
#         buffer.data = buffer.data.to(dtype)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.51"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = ["expected scalar type", "to have the same dtype"]
# where = [
#     "transformers.models.t5.modeling_t5:T5Attention.forward",
#     "transformers.integrations.sdpa_attention:sdpa_attention_forward",
# ]
# note = """
# Since 5.15 T5 has SDPA, which says it in other words. optimum-executorch mended its copy of the \
# module."""
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/optimum-executorch/pull/173"
# says = "The cache of the decoder is in fp32 whatever the dtype of the model."
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""A T5 in 16 bit must be exported like one in fp32.

The module that transformers wraps around the decoder for torch.export makes its static cache in
fp32, whatever the model is in: keys and values come out of the cache in fp32, and meet queries in
16 bit. Exported is without `strict`: with it, as `Seq2SeqLMExportableModule` does it, the same
fails in several times the seconds; the seconds of this case are those of the export.
"""

import os
import sys

import torch
from transformers import T5Config, T5ForConditionalGeneration
from transformers.integrations import executorch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2}
WORKAROUNDS = {"", "cast-buffers"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = T5Config(**SIZES, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config).to(device, dtype).eval()
    wrapped = executorch.Seq2SeqLMDecoderExportableModuleWithStaticCache(
        model, max_static_cache_length=16, batch_size=1
    )
    wrapped = wrapped.to(device).eval()
    if workaround == "cast-buffers":
        for one in wrapped.buffers():
            one.data = one.data.to(dtype) if one.is_floating_point() else one.data
    ids = torch.randint(5, 90, (1, 10), device=device)
    start, position = torch.tensor([[0]], device=device), torch.tensor([0], device=device)
    with torch.no_grad():
        inputs = (start, model.encoder(ids).last_hidden_state, position)
        logits = torch.export.export(wrapped, inputs, strict=False).module()(*inputs)
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
