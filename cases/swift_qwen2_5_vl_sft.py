# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "ms-swift>=3.1", "qwen-vl-utils", "torchvision"]
#
# [tool.repromatrix]
# title = "swift sft of Qwen2.5-VL with DeepSpeed and flash attention: cos/sin dtype error"
# reports = ["https://github.com/modelscope/ms-swift/issues/3156"]
# area = "rotary-embedding"
# models = ["qwen2.5-vl"]
# trigger = ["trainer", "distributed"]
# symptom = ["error"]
# timeout = 180
# simulates = """
# A cast of the whole model where accelerate prepares it stands in for DeepSpeed. A function stands \
# in for flash-attn's rotary kernel and one for its attention: they compute nothing, but the first \
# records dtypes that the kernel refuses (eager attention since transformers 4.53). On a torch \
# without CUDA two operators of torchvision have a name only. ms-swift and all else that it calls \
# is real."""
#
# [tool.repromatrix.workarounds]
# eager = "Train with --attn_impl eager."
# no-deepspeed = "Train without DeepSpeed: the frequencies of the rotary embedding stay in fp32."
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49,<4.50"]
# precisions = ["bf16", "fp16"]
# raises = "AssertionError"
# match = "the rotary kernel got a query of another dtype than cos"
# where = "swift_qwen2_5_vl_sft:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/36188"
# note = """
# With flash-attn itself the error reads: Input and cos/sin must have the same dtype, got \
# torch.float32 and torch.bfloat16. Without DeepSpeed's cast the frequencies stay in fp32, and \
# nothing fails."""
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/modelscope/ms-swift/issues/3156"
# says = "swift sft with flash attention in bfloat16 fails with 4.49.0."
# when = ["transformers==4.49.0"]
# precisions = ["bf16"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/modelscope/ms-swift/issues/3156"
# says = "A development version of 4.50.0 fails like 4.49.0 (no release, so not measured)."
# precisions = ["bf16"]
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/modelscope/ms-swift/issues/3156"
# says = "Training runs with eager attention instead of flash attention."
# precisions = ["bf16"]
# workaround = "eager"
# outcome = "passes"
# ///
"""ms-swift must fine-tune Qwen2.5-VL in 16 bit: a step, an evaluation and a checkpoint.

With DeepSpeed it raised "Input and cos/sin must have the same dtype", as in qwen2_5_vl_flash_rotary.
A stand-in records with which dtypes flash-attn's rotary kernel is called, and the run goes on. The
real kernel in qwen2_5_vl_triton_rotary is the main evidence. Most of the seconds are imports.
"""

import json
import os
import runpy
import sys
from pathlib import Path

import torch
import transformers
from PIL import Image

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
NAMES = "endoftext im_start im_end a b c d e f vision_start vision_end vision_pad image_pad"
SPECIAL = [f"<|{name}|>" for name in NAMES.split()]  # ms-swift counts on their numbers
TOKENS = {"eos_token": SPECIAL[0], "additional_special_tokens": SPECIAL, "chat_template": "-"}
SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
SIZES |= {"num_key_value_heads": 2, "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]}}
SIZES |= {"image_token_id": 151655, "video_token_id": 151656, "vision_start_token_id": 151652}
TOWER = {"hidden_size": 128, "out_hidden_size": 32, "depth": 1}
RUN = "--model tiny --model_type qwen2_5_vl --template qwen2_5_vl --dataset a.jsonl --use_hf true"
RUN += " --check_model false --split_dataset_ratio 0.5 --max_steps 1 --eval_steps 1 --save_steps 1"
measured = {"mixed_calls": 0.0}
OPERATORS = torch.library.Library("torchvision", "FRAGMENT")  # what is declared ends with it
for operator in ("nms", "qnms") if torch.version.cuda is None else ():
    OPERATORS.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def rotary_kernel(x: torch.Tensor, cos: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    measured["mixed_calls"] += x.dtype != cos.dtype
    return x


def write_model(folder: Path) -> None:
    config = transformers.Qwen2_5_VLConfig(**SIZES, vision_config=TOWER)
    transformers.Qwen2_5_VLForConditionalGeneration(config).save_pretrained(folder)
    transformers.Qwen2VLImageProcessor().save_pretrained(folder)
    words = {chr(33 + i) if i < 94 else f"#{i}": i for i in range(151643)}
    (folder / "vocab.json").write_text(json.dumps(words))
    (folder / "tokenizer_config.json").write_text(json.dumps(TOKENS))
    (folder / "merges.txt").touch()


def main(precision: str, workaround: str = "") -> None:
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    if workaround != "eager":  # the class for eager attention is replaced: no package is asked for
        if precision == "fp32":
            sys.exit(125)  # flash attention has no fp32 kernel
        qwen = transformers.models.qwen2_5_vl.modeling_qwen2_5_vl
        qwen.apply_rotary_emb, qwen.flash_attn_varlen_func = rotary_kernel, lambda query, *_: query
        towers = getattr(qwen, "QWEN2_5_VL_VISION_ATTENTION_CLASSES", {})
        towers.update(eager=towers.get("flash_attention_2"))
    if workaround != "no-deepspeed":
        transformers.trainer.Accelerator.prepare_model = lambda _, one, **__: one.to(one.dtype)
    write_model(Path("tiny"))
    Image.new("RGB", (56, 56)).save("red.png")
    Path("a.jsonl").write_text(4 * '{"query": "<image>", "response": "a", "images": ["red.png"]}\n')
    device = f"--use_cpu {not torch.cuda.is_available()} --torch_dtype {DTYPES[precision]}"
    sys.argv = f"sft {RUN} --attn_impl eager {device}".split()
    runpy.run_module("swift.cli.sft", run_name="__main__")
    assert "eval_loss" in next(Path().rglob("trainer_state.json")).read_text()
    assert not measured["mixed_calls"], "the rotary kernel got a query of another dtype than cos"


if __name__ == "__main__":
    main(*sys.argv[1:])
