# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "accelerate"]
#
# [tool.repromatrix]
# title = "A quantised 16-bit checkpoint loaded without a dtype is half in 16 bit, half in fp32"
# reports = ["https://github.com/huggingface/transformers/pull/36930"]
# area = "quantization"
# models = "any"
# shown-with = ["llama"]
# concerns = """
# Every quantised checkpoint whose other weights are in 16 bit, loaded without a dtype."""
# trigger = ["load", "forward"]
# symptom = ["error"]
# exercises = "load"
#
# [tool.repromatrix.workarounds]
# explicit = "Load with the dtype you want (torch_dtype before 4.56)."
#
# [tool.repromatrix.snippets]
# explicit = "model = LlamaForCausalLM.from_pretrained(name, torch_dtype=dtype)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.50,<4.51"]
# precisions = ["bf16", "fp16"]
# raises = "RuntimeError"
# match = [
#     "to have the same dtype, but got",
#     "must have the same dtype, but got",
# ]
# where = "transformers.models.llama.modeling_llama:LlamaForCausalLM.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/36930"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/36930"
# says = "Without a dtype none is noted before quantising, and BitNet has nothing to cast to."
# when = ["transformers>=4.50,<4.51"]
# precisions = ["bf16", "fp16"]
# outcome = "fails"
# ///
"""A quantised checkpoint loaded without a dtype must have one dtype in all that is not quantised.

The layers are made in the default dtype, fp32. What fills them is cast to a dtype that is noted
before quantising; without a dtype none is noted, and nothing is cast.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.integrations.bitnet import pack_weights

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2}
WORKAROUNDS = {"", "explicit"}


def save_packed(folder: Path, dtype: torch.dtype) -> None:
    LlamaForCausalLM(LlamaConfig(**SIZES, **HEADS)).to(dtype).save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    for name in [name for name in weights if "_proj.weight" in name]:
        weights[name] = pack_weights(torch.randint(-1, 2, weights[name].shape))
        weights[name + "_scale"] = torch.full((1,), 50.0, dtype=dtype)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitnet"}
    (folder / "config.json").write_text(json.dumps(config))


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    asked = {"torch_dtype": dtype} if workaround == "explicit" else {}
    with tempfile.TemporaryDirectory() as folder, torch.compiler.set_stance("force_eager"):
        save_packed(Path(folder), dtype)
        model = LlamaForCausalLM.from_pretrained(folder, **asked).to(device).eval()
        logits = model(input_ids=torch.tensor([[5, 6, 7]], device=device)).logits
    assert logits.isfinite().all(), "non-finite logits"
    dtypes = {value.dtype for value in model.state_dict().values() if value.is_floating_point()}
    assert len(dtypes) == 1, "a parameter or buffer is in another dtype"


if __name__ == "__main__":
    main(*sys.argv[1:])
