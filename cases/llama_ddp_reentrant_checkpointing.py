# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "DDP that finds unused parameters fails with the default of gradient checkpointing"
# reports = [
#     "https://github.com/huggingface/accelerate/issues/3536",
#     "https://github.com/huggingface/accelerate/issues/389",
#     "https://github.com/huggingface/trl/issues/4782",
#     "https://github.com/modelscope/ms-swift/issues/2746",
# ]
# area = "gradient-checkpointing"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every model with gradient checkpointing that DDP trains with find_unused_parameters, which a model \
# with parts that are not used in every step needs."""
# trigger = ["backward", "distributed"]
# symptom = ["error"]
# processes = 2
#
# [tool.repromatrix.workarounds]
# non-reentrant = "Turn gradient checkpointing on with use_reentrant set to False."
# static-graph = "Tell DDP that the graph is static."
# all-used = "Leave find_unused_parameters off, where all parameters are used."
#
# [tool.repromatrix.snippets]
# non-reentrant = '''
# options = {"use_reentrant": False}
# model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)'''
# static-graph = '''
# options = {"find_unused_parameters": True, "static_graph": True}
# model = DistributedDataParallel(model, **options)'''
# all-used = "model = DistributedDataParallel(model, find_unused_parameters=False)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers<5"]
# raises = "RuntimeError"
# match = "Expected to mark a variable ready only once"
# where = "llama_ddp_reentrant_checkpointing:gradient"
# fixed-by = "https://github.com/huggingface/transformers/pull/43203"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/accelerate/issues/389"
# says = "It works with use_reentrant set to False."
# workaround = "non-reentrant"
# outcome = "passes"
# ///
"""A model with gradient checkpointing must train under DDP that finds unused parameters.

Until 4.57 `gradient_checkpointing_enable` chose reentrant checkpoints unless it was told otherwise.
DDP looks for unused parameters in the graph of the loss, does not see those behind a reentrant
checkpoint, takes them for unused, and then gets their gradients all the same. Each of two processes
trains for one step on its own text.
"""

import multiprocessing
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM, LlamaConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
WORKAROUNDS = {"", "non-reentrant", "static-graph", "all-used"}
measured: dict[str, float] = {}


def gradient(rank: int, precision: str, workaround: str) -> float:
    """Join the group of two, train for one step, and return the norm of the gradient."""
    torch.set_num_threads(1)  # a fork makes its pool anew, and two threads that ask at once crash
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    group, limit = Path("group").absolute().as_uri(), timedelta(seconds=50)
    dist.init_process_group("gloo", init_method=group, rank=rank, world_size=2, timeout=limit)
    device = os.environ.get("REPRO_DEVICE", "cpu")
    config = LlamaConfig(**SIZES, num_attention_heads=2, num_key_value_heads=2)
    model = AutoModelForCausalLM.from_config(config).to(device, DTYPES[precision]).train()
    options = {"use_reentrant": False} if workaround == "non-reentrant" else None
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
    parallel = DistributedDataParallel(
        model,
        find_unused_parameters=workaround != "all-used",
        static_graph=workaround == "static-graph",
    )
    ids = torch.randint(5, 90, (2, 12), device=device)[rank : rank + 1]
    parallel(input_ids=ids, labels=ids).loss.backward()
    if rank:
        time.sleep(50)  # its sockets close with it, and the first process may still read
    return sum(one.grad.double().square().sum().item() for one in model.parameters())


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    context = multiprocessing.get_context("fork")
    other = context.Process(target=gradient, args=(1, precision, workaround), daemon=True)
    other.start()
    measured["squared_gradient"] = gradient(0, precision, workaround)
    other.terminate()
    assert 0 < measured["squared_gradient"] < float("inf"), "no gradient, or no finite one"


if __name__ == "__main__":
    main(*sys.argv[1:])
