# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.6"]
#
# [tool.repromatrix]
# title = "FSDP2 with mixed precision on a module of your own: object has no attribute 'dtype'"
# reports = ["https://github.com/huggingface/accelerate/pull/3528"]
# area = "trainer"
# models = "any"
# shown-with = ["bert"]
# concerns = """
# Every model that is wrapped in a plain torch module, as a head of your own, and trained with \
# accelerate, FSDP2 and mixed precision."""
# trigger = ["distributed"]
# symptom = ["error"]
# simulates = """
# The one process of a group of one calls fsdp2_prepare_model with the plugin, as \
# Accelerator.prepare does on GPUs: on a CPU accelerate does not turn FSDP on."""
#
# [tool.repromatrix.workarounds]
# dtype-attribute = "Give the module an attribute `dtype`."
# no-mixed-precision = "Leave mixed precision off."
#
# [tool.repromatrix.snippets]
# dtype-attribute = "model.dtype = dtype  # before it is prepared"
# no-mixed-precision = 'accelerator = Accelerator(mixed_precision="no")'
#
# [[tool.repromatrix.fails]]
# when = ["accelerate<1.7"]
# precisions = ["bf16", "fp16"]
# raises = "AttributeError"
# match = "object has no attribute 'dtype'"
# where = "accelerate.utils.fsdp_utils:fsdp2_prepare_model"
# fixed-by = "https://github.com/huggingface/accelerate/pull/3528"
#
# [[tool.repromatrix.fails]]
# title = "FSDP2 on a CPU fails with torch 2.6: 'Stream' object has no attribute 'record_event'"
# at-fault = "torch"
# when = ["torch<2.7", "accelerate<1.11"]
# precisions = ["fp32"]
# raises = "AttributeError"
# match = "'Stream' object has no attribute 'record_event'"
# note = "torch 2.6 shards nothing on a CPU."
#
# [[tool.repromatrix.fails]]
# title = "FSDP2 on a CPU fails with torch 2.6: 'Stream' object has no attribute 'record_event'"
# at-fault = "torch"
# when = ["torch<2.7", "accelerate>=1.13"]
# precisions = ["fp32"]
# raises = "AttributeError"
# match = "'Stream' object has no attribute 'record_event'"
# note = "torch 2.6 shards nothing on a CPU."
#
# [[tool.repromatrix.fails]]
# title = "FSDP2 in accelerate 1.11 and 1.12 needs torch 2.7: no argument 'ignored_params'"
# at-fault = "accelerate"
# when = ["torch<2.7", "accelerate>=1.11,<1.13"]
# precisions = ["fp32"]
# raises = "TypeError"
# match = "fully_shard() got an unexpected keyword argument 'ignored_params'"
# note = "torch 2.6 shards nothing on a CPU; this argument came with torch 2.7."
#
# [[tool.repromatrix.fails]]
# title = "FSDP2 on a CPU fails with torch 2.6: 'Stream' object has no attribute 'record_event'"
# at-fault = "torch"
# when = ["torch<2.7", "accelerate>=1.7,<1.11"]
# precisions = ["bf16", "fp16"]
# raises = "AttributeError"
# match = "'Stream' object has no attribute 'record_event'"
# note = "torch 2.6 shards nothing on a CPU."
#
# [[tool.repromatrix.fails]]
# title = "FSDP2 on a CPU fails with torch 2.6: 'Stream' object has no attribute 'record_event'"
# at-fault = "torch"
# when = ["torch<2.7", "accelerate>=1.13"]
# precisions = ["bf16", "fp16"]
# raises = "AttributeError"
# match = "'Stream' object has no attribute 'record_event'"
# note = "torch 2.6 shards nothing on a CPU."
#
# [[tool.repromatrix.fails]]
# title = "FSDP2 in accelerate 1.11 and 1.12 needs torch 2.7: no argument 'ignored_params'"
# at-fault = "accelerate"
# when = ["torch<2.7", "accelerate>=1.11,<1.13"]
# precisions = ["bf16", "fp16"]
# raises = "TypeError"
# match = "fully_shard() got an unexpected keyword argument 'ignored_params'"
# note = "torch 2.6 shards nothing on a CPU; this argument came with torch 2.7."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/accelerate/pull/3528"
# says = "A plain torch module has no attribute dtype."
# when = ["accelerate<1.7"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""FSDP2 with mixed precision must take a torch module that is no model of transformers.

To see whether the weights need an upcast, `fsdp2_prepare_model` of accelerate 1.6 asked the model
for its `dtype`, which a plain module does not have. The weights are in the dtype of the cell.
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.fsdp  # imported late it costs seconds in every cell
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from transformers import AutoModel, BertConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
WORKAROUNDS = {"", "dtype-attribute", "no-mixed-precision"}


class Classifier(torch.nn.Module):
    """A head of one's own on a model of transformers."""

    def __init__(self) -> None:
        """Make both."""
        super().__init__()
        self.base = AutoModel.from_config(BertConfig(**SIZES, num_attention_heads=2))
        self.head = torch.nn.Linear(32, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of each token."""
        return self.head(self.base(input_ids=ids).last_hidden_state)


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mixed = "no" if precision == "fp32" or workaround == "no-mixed-precision" else "bf16"
    accelerator = Accelerator(mixed_precision=mixed, cpu=device == "cpu")
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, cpu_ram_efficient_loading=False)
    if mixed != "no":
        plugin.set_mixed_precision(precision)
    accelerator.state.fsdp_plugin = plugin
    model = Classifier().to(device, dtype)
    if workaround == "dtype-attribute":
        model.dtype = dtype
    model = fsdp2_prepare_model(accelerator, model)
    logits = model(torch.randint(5, 90, (2, 8), device=device))
    dist.destroy_process_group()
    assert logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
