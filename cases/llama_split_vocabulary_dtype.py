# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=5.1,!=5.15.0,!=5.15.1,!=5.16.0"]
#
# [tool.repromatrix]
# title = "Tensor parallel with a split vocabulary: the embeddings of a 16-bit model come out in fp32"
# reports = ["https://github.com/huggingface/transformers/pull/44612"]
# area = "tensor-parallel"
# models = "any"
# shown-with = ["llama"]
# concerns = "Every 16-bit model whose tensor parallel plan splits the embedding table by vocabulary."
# trigger = ["load", "forward", "distributed"]
# symptom = ["error"]
# exercises = "load"
# processes = 2
#
# [tool.repromatrix.workarounds]
# own-plan = { says = "Use tp_plan='auto', which does not split the table of embeddings.", skips = true }
# autocast = "Run the model under torch.autocast."
#
# [tool.repromatrix.snippets]
# own-plan = 'model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype, tp_plan="auto")'
# autocast = '''
# with torch.autocast(device, dtype):
#     outputs = model(**inputs)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.1,<5.4"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = "to have the same dtype"
# where = "transformers.models.llama.modeling_llama:LlamaAttention.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/44612"
#
# [[tool.repromatrix.fails]]
# title = "Tensor parallel since 5.16 needs torch 2.7: unexpected keyword argument 'src_data_rank'"
# when = ["torch<2.7", "transformers>=5.16"]
# raises = "TypeError"
# match = "distribute_tensor() got an unexpected keyword argument 'src_data_rank'"
# where = "transformers.distributed.tensor_parallel:EmbeddingParallel.shard_param"
# note = "torch 2.6 has no such argument."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/44612"
# says = "The mask of the embeddings is cast to fp32."
# when = ["transformers>=5.3,<5.4"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""A model whose vocabulary is split over two processes must compute in the dtype of its weights.

Each process looks up the tokens of its half and multiplies those of the other half by 0: until
transformers 5.3 with a mask in fp32, so that the sum of both was in fp32, and the first layer
refused it. 5.15 and 5.16.0 take no plan of one's own.
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
from transformers import AutoModelForCausalLM, LlamaConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
WORKAROUNDS = {"", "own-plan", "autocast"}
measured: dict[str, float] = {}


def logits(rank: int, precision: str, workaround: str) -> torch.Tensor:
    """Join the group of two, load half of the model, and return what both compute."""
    torch.set_num_threads(1)  # a fork makes its pool anew, and two threads that ask at once crash
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    group = Path("group").absolute().as_uri()
    limit = timedelta(seconds=50)
    dist.init_process_group("gloo", init_method=group, rank=rank, world_size=2, timeout=limit)
    if rank == 0:
        config = LlamaConfig(**SIZES, num_attention_heads=4, num_key_value_heads=2)
        AutoModelForCausalLM.from_config(config).save_pretrained("saved")
    dist.barrier()
    plan = "auto" if workaround == "own-plan" else {"model.embed_tokens": "embedding_rowwise"}
    dtype = DTYPES[precision]
    model = AutoModelForCausalLM.from_pretrained("saved", dtype=dtype, tp_plan=plan)
    ids = torch.arange(5, 95).view(2, 45)
    with torch.no_grad(), torch.autocast("cpu", dtype, enabled=workaround == "autocast"):
        result = model(input_ids=ids).logits
    if rank:
        time.sleep(50)  # its sockets close with it, and the first process may still read
    return result


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    context = multiprocessing.get_context("fork")
    other = context.Process(target=logits, args=(1, precision, workaround), daemon=True)
    other.start()
    result = logits(0, precision, workaround)
    other.terminate()
    assert result.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
