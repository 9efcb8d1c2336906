# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.6"]
#
# [tool.repromatrix]
# title = "FSDP2 with mixed precision upcasts frozen parameters to fp32: twice the memory"
# reports = ["https://github.com/huggingface/accelerate/pull/3848"]
# area = "trainer"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every 16-bit model with frozen weights, as under an adapter, that accelerate trains with FSDP2 and \
# mixed precision."""
# trigger = ["load", "cast", "distributed"]
# symptom = ["wrong-dtype"]
# simulates = """
# The one process of a group of one calls fsdp2_prepare_model with the plugin, as \
# Accelerator.prepare does on GPUs: on a CPU accelerate does not turn FSDP on."""
#
# [tool.repromatrix.workarounds]
# no-mixed-precision = "Leave mixed precision off: the frozen weights stay in 16 bit."
#
# [tool.repromatrix.snippets]
# no-mixed-precision = 'accelerator = Accelerator(mixed_precision="no")'
#
# [[tool.repromatrix.fails]]
# when = ["torch>=2.7", "accelerate<1.13"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "frozen weights were upcast"
# where = "accelerate_fsdp2_frozen_upcast:main"
# fixed-by = "https://github.com/huggingface/accelerate/pull/3848"
#
# [[tool.repromatrix.fails]]
# title = "FSDP2 on a CPU fails with torch 2.6: 'Stream' object has no attribute 'record_event'"
# at-fault = "torch"
# when = ["torch<2.7", "accelerate<1.11"]
# raises = "AttributeError"
# match = "'Stream' object has no attribute 'record_event'"
# note = "torch 2.6 shards nothing on a CPU."
#
# [[tool.repromatrix.fails]]
# title = "FSDP2 on a CPU fails with torch 2.6: 'Stream' object has no attribute 'record_event'"
# at-fault = "torch"
# when = ["torch<2.7", "accelerate>=1.13"]
# raises = "AttributeError"
# match = "'Stream' object has no attribute 'record_event'"
# note = "torch 2.6 shards nothing on a CPU."
#
# [[tool.repromatrix.fails]]
# title = "FSDP2 in accelerate 1.11 and 1.12 needs torch 2.7: no argument 'ignored_params'"
# at-fault = "accelerate"
# when = ["torch<2.7", "accelerate>=1.11,<1.13"]
# raises = "TypeError"
# match = "fully_shard() got an unexpected keyword argument 'ignored_params'"
# note = "torch 2.6 shards nothing on a CPU; this argument came with torch 2.7."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/accelerate/pull/3848"
# says = "Parameters that are not trained are upcast, too."
# when = ["accelerate<1.13"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""FSDP2 with mixed precision must leave frozen weights in 16 bit, and train the others in fp32.

Until accelerate 1.12 `fsdp2_prepare_model` upcast the whole model. The base of an adapter, which is
not trained, took twice the memory in every process. On a CPU accelerate has bf16 mixed precision
only: FSDP2 is told of fp16 in its policy, and accelerate of bf16.
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.fsdp  # imported late it costs seconds in every cell
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from transformers import AutoModelForCausalLM, LlamaConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "tie_word_embeddings": False}
WORKAROUNDS = {"", "no-mixed-precision"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mixed = "no" if precision == "fp32" or workaround else "bf16"
    accelerator = Accelerator(mixed_precision=mixed, cpu=device == "cpu")
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, cpu_ram_efficient_loading=False)
    if mixed != "no":
        plugin.set_mixed_precision(precision)
    accelerator.state.fsdp_plugin = plugin
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES, **HEADS)).to(device, dtype)
    model.requires_grad_(requires_grad=False)
    model = fsdp2_prepare_model(accelerator, model)
    sizes = [one.numel() * (one.dtype is not dtype) for one in model.parameters()]
    measured["frozen_upcast_share"] = sum(sizes) / sum(p.numel() for p in model.parameters())
    ids = torch.randint(5, 90, (2, 8), device=device)
    loss = model(input_ids=ids, labels=ids).loss
    dist.destroy_process_group()
    assert loss.isfinite(), "the loss is not finite"
    assert measured["frozen_upcast_share"] < 0.1, "frozen weights were upcast"


if __name__ == "__main__":
    main(*sys.argv[1:])
