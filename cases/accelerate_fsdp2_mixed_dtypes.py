# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.6"]
#
# [tool.repromatrix]
# title = "FSDP2 with mixed precision refuses a 16-bit model with norms in fp32"
# reports = ["https://github.com/huggingface/accelerate/pull/3985"]
# area = "trainer"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model with trainable parameters of two dtypes in one layer, as norms or routers kept in fp32, \
# that accelerate trains with FSDP2 and mixed precision."""
# trigger = ["cast", "distributed"]
# symptom = ["error"]
# exercises = "load"
# processes = 2
# simulates = """
# Two processes call fsdp2_prepare_model with the plugin, as Accelerator.prepare does on GPUs: on a \
# CPU accelerate does not turn FSDP on."""
#
# [tool.repromatrix.workarounds]
# load-fp32 = "Load the whole model in fp32; FSDP2 computes in 16 bit all the same."
# all-half = "Cast the norms, too."
#
# [tool.repromatrix.snippets]
# load-fp32 = "model.to(torch.float32)  # before it is prepared"
# all-half = "model.to(dtype)  # norms included, before it is prepared"
#
# [[tool.repromatrix.fails]]
# when = ["accelerate>=1.13,<1.14"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "FSDP expects uniform original parameter dtype"
# where = "accelerate_fsdp2_mixed_dtypes:step"
# fixed-by = "https://github.com/huggingface/accelerate/pull/3985"
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
# when = ["torch<2.7", "accelerate<1.11"]
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
# [[tool.repromatrix.fails]]
# title = "FSDP2 on a CPU fails with torch 2.6: 'Stream' object has no attribute 'record_event'"
# at-fault = "torch"
# when = ["torch<2.7", "accelerate>=1.14"]
# precisions = ["bf16", "fp16"]
# raises = "AttributeError"
# match = "'Stream' object has no attribute 'record_event'"
# note = "torch 2.6 shards nothing on a CPU."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/accelerate/pull/3985"
# says = "With parameters of mixed dtypes the first forward fails."
# when = ["accelerate>=1.13,<1.14"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""FSDP2 with mixed precision must train a 16-bit model in which some parameters are in fp32.

FSDP2 wants one dtype for all parameters that it shards together. Until accelerate 1.12
`fsdp2_prepare_model` cast all to fp32 behind `fully_shard`, from 1.14 it does so before; 1.13 did
not. Each of two processes holds half of the weights. On a CPU accelerate has bf16 mixed precision
only: FSDP2 is told of fp16 in its policy, and accelerate of bf16.
"""

import multiprocessing
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.fsdp  # imported late it costs seconds in every cell
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from transformers import AutoModelForCausalLM, LlamaConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "tie_word_embeddings": False}
WORKAROUNDS = {"", "load-fp32", "all-half"}
measured: dict[str, float] = {}


def step(rank: int, precision: str, workaround: str) -> float:
    """Join the group of two, train for one step, and return the norm of the gradient."""
    torch.set_num_threads(1)  # a fork makes its pool anew, and two threads that ask at once crash
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    group, limit = Path("group").absolute().as_uri(), timedelta(seconds=50)
    dist.init_process_group("gloo", init_method=group, rank=rank, world_size=2, timeout=limit)
    mixed = "no" if precision == "fp32" else "bf16"
    accelerator = Accelerator(mixed_precision=mixed, cpu=device == "cpu")
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, cpu_ram_efficient_loading=False)
    if mixed != "no":
        plugin.set_mixed_precision(precision)
    accelerator.state.fsdp_plugin = plugin
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES, **HEADS)).to(device)
    model.to(torch.float32 if workaround == "load-fp32" else dtype)
    if workaround != "all-half":
        model.model.norm.float()
    model = fsdp2_prepare_model(accelerator, model)
    ids = torch.randint(5, 90, (4, 16), device=device)
    model(input_ids=ids, labels=ids).loss.backward()
    gradients = [one.grad.full_tensor().double() for one in model.parameters()]
    if rank:
        time.sleep(50)  # its sockets close with it, and the first process may still read
    return sum(one.square().sum().item() for one in gradients)


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    context = multiprocessing.get_context("fork")
    other = context.Process(target=step, args=(1, precision, workaround), daemon=True)
    other.start()
    measured["squared_gradient"] = step(0, precision, workaround)
    other.terminate()
    assert 0 < measured["squared_gradient"] < float("inf"), "no gradient, or no finite one"


if __name__ == "__main__":
    main(*sys.argv[1:])
