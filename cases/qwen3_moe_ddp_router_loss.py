# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.51", "accelerate>=1.6"]
#
# [tool.repromatrix]
# title = "Trainer with DDP multiplies the router loss of Qwen3-MoE by the number of processes"
# reports = ["https://github.com/huggingface/transformers/issues/48690"]
# area = "trainer"
# models = ["qwen3-moe"]
# same-code = ["mixtral", "olmoe", "qwen2-moe"]
# trigger = ["trainer", "distributed"]
# symptom = ["wrong-numbers"]
# processes = 2
#
# [tool.repromatrix.workarounds]
# no-average = "Set average_tokens_across_devices to False, as it was by default until 4.54."
#
# [tool.repromatrix.snippets]
# no-average = "arguments = TrainingArguments(folder, average_tokens_across_devices=False)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.51"]
# raises = "AssertionError"
# match = "the router's gradient is a multiple"
# where = "qwen3_moe_ddp_router_loss:main"
# note = "#48691 and #48706 propose to mend it."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/48690"
# says = "With two processes the gradient of the router is not that of one."
# when = ["transformers>=5.15,<5.16"]
# precisions = ["fp32"]
# outcome = "fails"
# ///
"""The weight of the router's loss must not depend on how many processes share a batch.

The Trainer multiplies the whole loss by the number of processes, since the mean over tokens is
divided by the tokens of all of them and DDP averages the gradients once more. The router's loss is
a mean of each process already, and comes out doubled. Both processes get the same text, and the
coefficient is so large that the router learns from this loss alone.
"""

import multiprocessing
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM, Qwen3MoeConfig, Trainer, TrainingArguments

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "moe_intermediate_size": 32, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}
ROUTER = {"num_experts": 4, "num_experts_per_tok": 2, "output_router_logits": True}
OPTIONS = {"max_steps": 1, "save_strategy": "no", "report_to": "none", "disable_tqdm": True}
OPTIONS |= {"optim": "sgd", "learning_rate": 0.0, "max_grad_norm": 0.0, "ddp_backend": "gloo"}
OPTIONS |= {"use_cpu": True, "per_device_train_batch_size": 1, "ddp_find_unused_parameters": True}
WORKAROUNDS = {"", "no-average"}
measured: dict[str, float] = {}


def ratio(rank: int, precision: str, workaround: str) -> float:
    """Join the group of two, train for a step, and compare the router's gradient with one's own."""
    torch.set_num_threads(1)  # a fork makes its pool anew, and two threads that ask at once crash
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="::1")
    group, limit = Path("group").absolute().as_uri(), timedelta(seconds=50)
    dist.init_process_group("gloo", init_method=group, rank=rank, world_size=2, timeout=limit)
    config = Qwen3MoeConfig(**SIZES, **HEADS, **ROUTER, router_aux_loss_coef=100.0)
    model = AutoModelForCausalLM.from_config(config).to(DTYPES[precision])
    row, norms = torch.randint(5, 90, (16,)), []
    router = model.model.layers[0].mlp.gate.weight
    model(input_ids=row[None], labels=row[None]).loss.backward()
    wanted = router.grad.float().norm()
    model.zero_grad()
    router.register_post_accumulate_grad_hook(lambda one: norms.append(one.grad.float().norm()))
    average = workaround != "no-average"
    args = TrainingArguments("trained", average_tokens_across_devices=average, **OPTIONS)
    Trainer(model, args, train_dataset=[{"input_ids": row, "labels": row}] * 2).train()
    if rank:
        time.sleep(50)  # its sockets close with it, and the first process may still read
    return (norms[-1] / wanted).item()


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    context = multiprocessing.get_context("fork")
    other = context.Process(target=ratio, args=(1, precision, workaround), daemon=True)
    other.start()
    measured["ratio"] = ratio(0, precision, workaround)
    other.terminate()
    measured["output_relative_error"] = abs(measured["ratio"] - 1)
    assert measured["output_relative_error"] < 0.3, "the router's gradient is a multiple"


if __name__ == "__main__":
    main(*sys.argv[1:])
