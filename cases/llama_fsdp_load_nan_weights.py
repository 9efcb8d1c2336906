# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate>=1.4"]
#
# [tool.repromatrix]
# title = "FSDP with cpu_ram_efficient_loading: the weights of every process but the first are NaN"
# reports = [
#     "https://github.com/huggingface/transformers/pull/45050",
#     "https://github.com/huggingface/trl/issues/5386",
# ]
# area = "loading"
# models = "any"
# shown-with = ["llama"]
# concerns = "Every model that is loaded for FSDP with cpu_ram_efficient_loading, which is the default."
# trigger = ["load", "distributed"]
# symptom = ["nan-or-inf"]
# processes = 2
#
# [tool.repromatrix.workarounds]
# load-everywhere = "Turn cpu_ram_efficient_loading off: every process loads the weights."
#
# [tool.repromatrix.snippets]
# load-everywhere = 'os.environ.update(FSDP_CPU_RAM_EFFICIENT_LOADING="false")'
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.4,<5.6"]
# raises = "AssertionError"
# match = "weights of the other process are not finite"
# where = "llama_fsdp_load_nan_weights:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/45050"
#
# [[tool.repromatrix.fails]]
# when = ["transformers<5"]
# raises = "AssertionError"
# match = "weights of the other process are not finite"
# where = "llama_fsdp_load_nan_weights:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/41580"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/45050"
# says = "Weights that are not loaded hold what lay in memory."
# when = ["transformers>=5.4,<5.6"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""What a process does not load because FSDP will send it must hold numbers, or nothing at all.

With `cpu_ram_efficient_loading` the first process alone reads the checkpoint. Until 4.57, and
again in 5.4 and 5.5, the others got tensors that nobody wrote. What lay in memory there is not the
same in every run; therefore torch fills such tensors with NaN, as its deterministic mode does.
"""

import multiprocessing
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM, LlamaConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
WORKAROUNDS = {"", "load-everywhere"}
measured: dict[str, float] = {}


def loaded(rank: int, precision: str, workaround: str) -> tuple[torch.nn.Module, float]:
    """Join the group of two, load, and return the model and the share of NaN in the other one."""
    torch.set_num_threads(1)  # a fork makes its pool anew, and two threads that ask at once crash
    torch.use_deterministic_algorithms(mode=True)
    efficient = "false" if workaround == "load-everywhere" else "true"
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    os.environ.update(ACCELERATE_USE_FSDP="true", FSDP_CPU_RAM_EFFICIENT_LOADING=efficient)
    group, limit = Path("group").absolute().as_uri(), timedelta(seconds=50)
    dist.init_process_group("gloo", init_method=group, rank=rank, world_size=2, timeout=limit)
    if rank == 0:
        config = LlamaConfig(**SIZES, num_attention_heads=2, num_key_value_heads=2)
        AutoModelForCausalLM.from_config(config).save_pretrained("saved")
    dist.barrier()
    model = AutoModelForCausalLM.from_pretrained("saved", torch_dtype=DTYPES[precision])
    real = [one for one in model.parameters() if not one.is_meta]
    wrong = sum((~one.isfinite()).sum().item() for one in real)
    share = torch.tensor(wrong / max(1, sum(one.numel() for one in real)))
    dist.broadcast(share, src=1)
    if rank:
        time.sleep(50)  # its sockets close with it, and the first process may still read
    return model, share.item()


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    context = multiprocessing.get_context("fork")
    other = context.Process(target=loaded, args=(1, precision, workaround), daemon=True)
    other.start()
    model, measured["nonfinite_share"] = loaded(0, precision, workaround)
    other.terminate()
    assert model(torch.arange(5, 25)[None]).logits.isfinite().all(), "non-finite logits"
    assert measured["nonfinite_share"] == 0, "weights of the other process are not finite"


if __name__ == "__main__":
    main(*sys.argv[1:])
