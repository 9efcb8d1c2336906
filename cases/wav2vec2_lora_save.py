# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49", "peft>=0.14"]
#
# [tool.repromatrix]
# title = "A LoRA on all linear layers of Wav2Vec2 for CTC cannot be saved: NotImplementedError"
# reports = ["https://github.com/huggingface/peft/issues/1569"]
# found-by = "sweep"
# area = "peft"
# models = ["wav2vec2"]
# same-code = ["hubert", "wavlm", "unispeech", "unispeech-sat", "sew", "sew-d", "data2vec-audio"]
# trigger = ["adapter", "save"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# no-embeddings = "Pass save_embedding_layers=False to save_pretrained."
# named-layers = "Name the layers in target_modules."
#
# [tool.repromatrix.snippets]
# no-embeddings = "model.save_pretrained(folder, save_embedding_layers=False)"
# named-layers = 'config = LoraConfig(target_modules=["q_proj", "v_proj"])'
#
# [[tool.repromatrix.fails]]
# at-fault = "peft"
# when = ["transformers>=4.49.0"]
# raises = "AssertionError"
# match = "the adapter is not on disk"
# where = "wav2vec2_lora_save:main"
# ///
"""An adapter that was trained must be saved.

Models of speech name their CTC head `lm_head`, and say through `get_output_embeddings` that it is
none, so that "all-linear" adapts it. When the adapter is saved, peft takes an adapted `lm_head` for
an embedding and asks for the input embeddings: `get_input_embeddings` raises, as there are none.
"""

import contextlib
import os
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
CONVOLUTIONS = {"conv_dim": (16, 16), "conv_kernel": (10, 8), "conv_stride": (5, 4)}
POSITIONS = {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2}
COUNTS = {"num_attention_heads": 2, "num_feat_extract_layers": 2}
WORKAROUNDS = {"", "no-embeddings", "named-layers"}


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = Wav2Vec2Config(**SIZES, **CONVOLUTIONS, **POSITIONS, **COUNTS)
    model = Wav2Vec2ForCTC(config).to(device, dtype)
    names = ["q_proj", "v_proj"] if workaround == "named-layers" else "all-linear"
    model = get_peft_model(model, LoraConfig(r=4, target_modules=names)).eval()
    logits = model(input_values=torch.randn(1, 800, device=device, dtype=dtype)).logits
    assert logits.isfinite().all(), "non-finite logits"
    options = {"save_embedding_layers": False} if workaround == "no-embeddings" else {}
    with contextlib.suppress(NotImplementedError):  # it has no message
        model.save_pretrained("adapter", **options)
    saved = Path("adapter", "adapter_model.safetensors").exists()
    assert saved, "the adapter is not on disk"


if __name__ == "__main__":
    main(*sys.argv[1:])
