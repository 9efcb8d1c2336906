# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "LoRA on Deformable DETR fails: get_input_embeddings raises NotImplementedError"
# reports = []
# found-by = "sweep"
# area = "peft"
# models = ["deformable-detr"]
# same-code = ["d-fine", "dab-detr", "deimv2", "flava", "grounding-dino", "rt-detr-v2"]
# trigger = ["adapter"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# no-embedding = "Set model.get_input_embeddings = torch.nn.Identity before get_peft_model."
#
# [tool.repromatrix.snippets]
# no-embedding = "model.get_input_embeddings = torch.nn.Identity  # before get_peft_model"
#
# [[tool.repromatrix.fails]]
# at-fault = "peft"
# when = ["transformers>=5.0.0"]
# raises = "NotImplementedError"
# match = "handled for DeformableDetrModel; please override in the subclass."
# where = "transformers.modeling_utils:EmbeddingAccessMixin.get_input_embeddings"
# ///
"""A detector without embeddings of tokens must take a LoRA adapter.

To find layers that are tied to the embeddings, peft asks every model with `_tied_weights_keys` for
its input embeddings. Those of detectors tie heads of the decoder, and the `get_input_embeddings`
that they inherit raises. Before 5.0 the keys were a list, and peft did not ask.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import DeformableDetrConfig, DeformableDetrForObjectDetection, ResNetConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
STAGES = {"embedding_size": 8, "hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1]}
FEATURES = {"layer_type": "basic", "out_features": ["stage2", "stage3", "stage4"]}
SIZES = {"d_model": 32, "num_queries": 5, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
LAYERS = {"encoder_layers": 1, "decoder_layers": 2}
HEADS = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
BACKBONE = {"use_timm_backbone": False, "backbone": None, "use_pretrained_backbone": False}
WORKAROUNDS = {"", "no-embedding"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    backbone = ResNetConfig(**STAGES, **FEATURES)
    config = DeformableDetrConfig(
        backbone_config=backbone,
        **BACKBONE,
        **SIZES,
        **LAYERS,
        **HEADS,
        disable_custom_kernels=True,
    )
    model = DeformableDetrForObjectDetection(config).to(device, dtype)
    if workaround == "no-embedding":
        model.get_input_embeddings = torch.nn.Identity
    pixels = torch.randn(1, 3, 128, 128, device=device, dtype=dtype)
    model(pixel_values=pixels)  # it computes without the adapter
    model = get_peft_model(model, LoraConfig(r=4, target_modules=["value_proj"])).eval()
    assert model(pixel_values=pixels).logits.isfinite().all(), "non-finite logits"


if __name__ == "__main__":
    main(*sys.argv[1:])
