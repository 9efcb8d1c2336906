# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.52", "accelerate"]
#
# [tool.repromatrix]
# title = "BitNet's packed weights are unpacked to uint8: mat1 and mat2 must have the same dtype"
# reports = ["https://github.com/huggingface/transformers/pull/46808"]
# area = "quantization"
# models = ["bitnet"]
# trigger = ["load", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# dequantized = "Store the ternary weights unpacked, in the dtype of the model."
#
# [tool.repromatrix.snippets]
# dequantized = "weights[name] = ternary.to(dtype)  # in place of pack_weights(ternary)"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.3,<5.13"]
# raises = "RuntimeError"
# match = [
#     "to have the same dtype, but got",
#     "must have the same dtype, but got",
# ]
# where = "transformers.integrations.bitnet:AutoBitLinear.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/46808"
#
# [[tool.repromatrix.fails]]
# title = "BitNet in 5.0 and 5.1 does not unpack its packed weights: shape is invalid for input"
# when = ["transformers>=5.0.0,<5.2.0"]
# raises = "RuntimeError"
# match = "]' is invalid for input of size"
# where = "transformers.models.bitnet.modeling_bitnet:BitNetAttention.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/43721"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/46808"
# says = "The ternary weights stay uint8, so that the linear layer fails."
# when = ["transformers>=5.3,<5.13"]
# precisions = ["bf16"]
# outcome = "fails"
# ///
"""BitNet's packed checkpoint must be loaded into layers of the dtype that is asked for.

Four ternary weights are packed in a byte. The loader unpacks them into the dtype of the tensor that
it reads, which is that of the bytes, where -1 becomes 255.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import BitNetConfig, BitNetForCausalLM
from transformers.integrations.bitnet import pack_weights

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "pad_token_id": 0}
HOW = {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"}
WORKAROUNDS = {"", "dequantized"}


def save(folder: Path, dtype: torch.dtype, workaround: str) -> None:
    BitNetForCausalLM(BitNetConfig(**SIZES, **HEADS)).to(dtype).save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    for name in [name for name in weights if "_proj.weight" in name]:
        ternary = torch.randint(-1, 2, weights[name].shape)
        weights[name] = pack_weights(ternary) if not workaround else ternary.to(dtype)
        weights[name + "_scale"] = torch.full((1,), 0.02, dtype=dtype)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": HOW}))


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    ids = torch.tensor([[5, 6, 7]], device=device)
    with tempfile.TemporaryDirectory() as folder, torch.compiler.set_stance("force_eager"):
        save(Path(folder), dtype, workaround)
        model = BitNetForCausalLM.from_pretrained(folder, torch_dtype=dtype).to(device)
        logits = model.eval()(input_ids=ids).logits
    assert logits.isfinite().all(), "non-finite logits"
    dtypes = {value.dtype for value in model.state_dict().values() if value.is_floating_point()}
    assert dtypes == {dtype}, "a parameter or buffer is in another dtype"


if __name__ == "__main__":
    main(*sys.argv[1:])
