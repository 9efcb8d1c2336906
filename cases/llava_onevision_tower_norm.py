# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "The last hidden state of SigLIP is normalised: LLaVA-OneVision sees other images"
# reports = ["https://github.com/huggingface/transformers/issues/40964"]
# area = "vision-tower"
# models = ["siglip"]
# same-code = ["llava-onevision", "aya-vision", "aria"]
# trigger = ["forward"]
# symptom = ["wrong-numbers"]
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.57,<4.57.2"]
# raises = "AssertionError"
# match = "hidden_states[-1] is not the output of the last layer"
# where = "llava_onevision_tower_norm:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/40994"
# ///
"""`hidden_states[-1]` of a vision tower is what its last layer gives, before the final norm.

Models that project these states, as LLaVA-OneVision does, were trained on them. The decorator
`check_model_inputs` put the normalised `last_hidden_state` in their place, as is right for
language models.
"""

import os
import sys

import torch
from transformers import SiglipVisionConfig, SiglipVisionModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "image_size": 16}
measured: dict[str, float] = {}


def main(precision: str, workaround: str = "") -> None:
    assert not workaround, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = SiglipVisionModel(SiglipVisionConfig(**SIZES, num_attention_heads=2, patch_size=8))
    for name, parameter in model.named_parameters():
        if "post_layernorm" in name:
            torch.nn.init.normal_(parameter, mean=2.0, std=0.5)
    model.eval().to(device, dtype)
    layers = next(one for name, one in model.named_modules() if name.endswith("encoder.layers"))
    seen: list[torch.Tensor] = []
    layers[-1].register_forward_hook(
        lambda _, __, out: seen.append(out if isinstance(out, torch.Tensor) else out[0])
    )
    pixels = torch.randn(1, 3, 16, 16).to(device, dtype)
    with torch.no_grad():
        states = model(pixel_values=pixels, output_hidden_states=True).hidden_states
    found, wanted = states[-1].float(), seen[0].float()
    measured["output_relative_error"] = float((found - wanted).norm() / wanted.norm())
    assert measured["output_relative_error"] < 0.05, (
        "hidden_states[-1] is not the output of the last layer"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
