# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.6"]
#
# [tool.repromatrix]
# title = "FSDP2 with mixed precision trains 16-bit master weights: small updates are lost"
# reports = ["https://github.com/huggingface/accelerate/issues/3979"]
# area = "trainer"
# models = "any"
# shown-with = ["llama"]
# concerns = "Every model that is loaded in 16 bit and trained with accelerate, FSDP2 and mixed precision."
# trigger = ["load", "cast", "distributed"]
# symptom = ["wrong-dtype"]
# simulates = """
# The one process of a group of one calls fsdp2_prepare_model with the plugin, as Accelerator.prepare \
# does on GPUs: on a CPU accelerate does not turn FSDP on."""
#
# [tool.repromatrix.workarounds]
# load-fp32 = "Load the model in fp32; FSDP2 computes in 16 bit all the same."
#
# [tool.repromatrix.snippets]
# load-fp32 = "model.to(torch.float32)  # before it is prepared"
#
# [[tool.repromatrix.fails]]
# when = ["torch>=2.7", "accelerate>=1.13,<1.14"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the master weights are not in fp32"
# where = "accelerate_fsdp2_master_weights:main"
# fixed-by = "https://github.com/huggingface/accelerate/pull/3985"
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
# report = "https://github.com/huggingface/accelerate/issues/3979"
# says = "The upcast does nothing since 1.13.0."
# when = ["accelerate>=1.13,<1.14"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/accelerate/issues/3979"
# says = "Before 1.13.0 the parameters are upcast."
# when = ["accelerate<1.13"]
# precisions = ["bf16"]
# outcome = "passes"
# ///
"""FSDP2 with mixed precision must train a 16-bit model in fp32 master weights.

`fsdp2_prepare_model` warns that it upcasts the parameters, but since accelerate 1.13 it binds the
cast tensor to a local name and leaves the model as it was. Updates below half a unit of a weight in
16 bit are lost; `updated_share` is the share of the weights that one small step changes. On a CPU
accelerate has bf16 mixed precision only: FSDP2 is told of fp16 in its policy, accelerate of bf16.
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
WORKAROUNDS = {"", "load-fp32"}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mixed = "no" if precision == "fp32" else "bf16"
    accelerator = Accelerator(mixed_precision=mixed, cpu=device == "cpu")
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, cpu_ram_efficient_loading=False)
    if mixed != "no":
        plugin.set_mixed_precision(precision)
    accelerator.state.fsdp_plugin = plugin
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES, **HEADS)).to(device)
    model.to(torch.float32 if workaround == "load-fp32" else dtype)
    model = fsdp2_prepare_model(accelerator, model)
    before = torch.cat([one.full_tensor().flatten().double() for one in model.parameters()])
    ids = torch.randint(5, 90, (4, 16), device=device)
    model(input_ids=ids, labels=ids).loss.backward()
    torch.optim.SGD(model.parameters(), lr=1e-3).step()
    after = torch.cat([one.full_tensor().flatten().double() for one in model.parameters()])
    dist.destroy_process_group()
    measured["updated_share"] = (after != before).double().mean().item()
    measured["parameters_in_half"] = sum(
        one.dtype is not torch.float32 for one in model.parameters()
    )
    assert measured["parameters_in_half"] == 0, "the master weights are not in fp32"


if __name__ == "__main__":
    main(*sys.argv[1:])
