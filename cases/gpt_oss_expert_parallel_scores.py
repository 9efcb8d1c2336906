# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.4"]
#
# [tool.repromatrix]
# title = "GPT-OSS with expert parallelism weighs experts with the scores of others"
# reports = ["https://github.com/huggingface/transformers/pull/45473"]
# area = "tensor-parallel"
# models = ["gpt_oss"]
# trigger = ["load", "forward", "distributed"]
# symptom = ["wrong-numbers"]
# processes = 2
#
# [tool.repromatrix.workarounds]
# all-experts = { says = "Do without expert parallelism: every process has all experts.", skips = true }
#
# [tool.repromatrix.snippets]
# all-experts = "model = AutoModelForCausalLM.from_pretrained(name)  # no distributed_config"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.4,<5.6"]
# precisions = ["fp32"]
# raises = "AssertionError"
# match = "other logits than the whole model has"
# where = "gpt_oss_expert_parallel_scores:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/45473"
#
# [[tool.repromatrix.fails]]
# when = ["torch<2.8", "transformers>=5.4,<5.6"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "other logits than the whole model has"
# where = "gpt_oss_expert_parallel_scores:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/45473"
#
# [[tool.repromatrix.fails]]
# when = ["torch>=2.9", "transformers>=5.4,<5.6"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "other logits than the whole model has"
# where = "gpt_oss_expert_parallel_scores:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/45473"
#
# [[tool.repromatrix.fails]]
# title = "GPT-OSS in fp16 sharded with FSDP2: FSDP expects uniform original parameter dtype"
# when = ["transformers>=5.19,<5.20"]
# precisions = ["fp16"]
# raises = "AssertionError"
# match = "FSDP expects uniform original parameter dtype"
# where = "gpt_oss_expert_parallel_scores:logits"
# note = "In fp16 the norms stay in fp32, and FSDP is asked to shard them with the rest."
#
# [[tool.repromatrix.fails]]
# title = "GPT-OSS in fp16 sharded with FSDP2: FSDP expects uniform original parameter dtype"
# when = ["torch>=2.8", "transformers>=5.23"]
# precisions = ["fp16"]
# raises = "AssertionError"
# match = "FSDP expects uniform original parameter dtype"
# where = "gpt_oss_expert_parallel_scores:logits"
# note = "In fp16 the norms stay in fp32, and FSDP is asked to shard them with the rest."
#
# [[tool.repromatrix.fails]]
# title = "Experts on a CPU with torch 2.8, until 5.12: Could not run 'aten::_grouped_mm'"
# when = ["torch>=2.8,<2.9", "transformers>=5.4,<5.13"]
# precisions = ["bf16", "fp16"]
# raises = "NotImplementedError"
# match = "Could not run 'aten::_grouped_mm' with arguments from the 'CPU' backend"
# where = "transformers.integrations.moe:_grouped_mm"
#
# [[tool.repromatrix.fails]]
# title = "Expert parallelism over FSDP2 needs torch 2.8: FSDP2 requires `torch>=2.8`"
# when = ["torch<2.8", "transformers>=5.23"]
# raises = "OSError"
# match = "FSDP2 requires `torch>=2.8`"
# where = "transformers.distributed.mixin:DistributedMixin.prepare_distribute_model"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/45473"
# says = "Every routing weight is paired with the wrong expert."
# when = ["transformers>=5.4,<5.6"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""Two processes that share the experts of GPT-OSS must give the logits of the whole model.

The router gives each token scores and experts, in pairs. Until transformers 5.5 expert parallelism
put the scores in the order of all experts, and the experts went on to take them as pairs.
"""

import multiprocessing
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.tensor  # imported late it costs seconds in every cell
from transformers import AutoModelForCausalLM, GptOssConfig
from transformers.distributed import DistributedConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2, "initializer_range": 0.5}
# The settings that share experts have had three forms: the newest that a release knows counts.
WAYS = [{"ep_size": 2, "fsdp_size": 2, "ep_implementation": "auto"}]
WAYS += [{"enable_expert_parallel": True, "tp_size": 2}, {"enable_expert_parallel": True}]
WORKAROUNDS = {"", "all-experts"}
measured: dict[str, float] = {}


def logits(**split: object) -> torch.Tensor:
    """Load the model, or the part of it that this process has, and return its logits."""
    model = AutoModelForCausalLM.from_pretrained("saved", **split)
    with torch.no_grad():
        return model(input_ids=torch.arange(5, 95).view(2, 45)).logits.float()


def shared(rank: int, precision: str, workaround: str) -> torch.Tensor:
    """Join the group of two, and return the logits that both compute."""
    torch.set_num_threads(1)  # a fork makes its pool anew, and two threads that ask at once crash
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    group, limit = Path("group").absolute().as_uri(), timedelta(seconds=50)
    dist.init_process_group("gloo", init_method=group, rank=rank, world_size=2, timeout=limit)
    if rank == 0:
        config = GptOssConfig(**SIZES, **HEADS, **EXPERTS)
        AutoModelForCausalLM.from_config(config).save_pretrained("saved")
    dist.barrier()
    fields = DistributedConfig.__dataclass_fields__.keys()
    experts = DistributedConfig(**next(one for one in WAYS if one.keys() <= fields))
    split = {} if workaround == "all-experts" else {"distributed_config": experts}
    result = logits(dtype=DTYPES[precision], **split)
    if rank:
        time.sleep(50)  # its sockets close with it, and the first process may still read
    return result


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    context = multiprocessing.get_context("fork")
    other = context.Process(target=shared, args=(1, precision, workaround), daemon=True)
    other.start()
    result = shared(0, precision, workaround)
    other.terminate()
    whole = logits(dtype=DTYPES[precision])
    measured["logits_relative_error"] = ((result - whole).norm() / whole.norm()).item()
    assert measured["logits_relative_error"] < 0.05, "other logits than the whole model has"


if __name__ == "__main__":
    main(*sys.argv[1:])
