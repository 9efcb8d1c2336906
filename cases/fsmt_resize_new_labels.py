# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "FSMT cannot predict tokens that were added: resizing leaves its output layer as it was"
# reports = []
# found-by = "sweep"
# area = "loading"
# models = ["fsmt"]
# trigger = ["forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# resize-decoder = """
# Replace the embeddings and output_projection of the decoder by larger ones, too, and set
# config.tgt_vocab_size."""
#
# [tool.repromatrix.snippets]
# resize-decoder = '''
# decoder, old = model.model.decoder, model.model.decoder.embed_tokens.weight.data
# decoder.embed_tokens = torch.nn.Embedding(size, old.shape[1], decoder.padding_idx)
# decoder.embed_tokens.weight.data[: old.shape[0]] = old
# decoder.output_projection = torch.nn.Linear(old.shape[1], size, bias=False)
# decoder.output_projection.weight = decoder.embed_tokens.weight
# model.config.tgt_vocab_size = size'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.49.0,<5.0.0"]
# raises = "IndexError"
# match = "is out of bounds."
# where = "transformers.models.fsmt.modeling_fsmt:FSMTForConditionalGeneration.forward"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0.0"]
# raises = "RuntimeError"
# match = "]' is invalid for input of size"
# where = "transformers.models.fsmt.modeling_fsmt:FSMTForConditionalGeneration.forward"
# ///
"""A model whose token embeddings were resized must have a logit for each token.

`FSMTForConditionalGeneration.get_output_embeddings` names the embeddings of the decoder, while the
logits come from `decoder.output_projection`. `resize_token_embeddings` does not reach that layer:
labels with a new token are out of bounds.
"""

import os
import sys

import torch
from transformers import FSMTConfig, FSMTForConditionalGeneration

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
VOCAB, ADDED = 99, 8
SIZES = {"src_vocab_size": VOCAB, "tgt_vocab_size": VOCAB, "d_model": 16}
ENCODER = {"encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 32}
DECODER = {"decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 32}
WORKAROUNDS = {"", "resize-decoder"}


def resize_decoder(decoder: torch.nn.Module, rows: int) -> None:
    old = decoder.embed_tokens.weight.data[:VOCAB]
    decoder.embed_tokens = torch.nn.Embedding(rows, old.shape[1], decoder.padding_idx)
    decoder.embed_tokens.weight.data[:VOCAB] = old
    decoder.output_projection = torch.nn.Linear(old.shape[1], rows, bias=False)
    decoder.output_projection.weight = decoder.embed_tokens.weight


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    config = FSMTConfig(langs=["en", "de"], **SIZES, **ENCODER, **DECODER)
    model = FSMTForConditionalGeneration(config).eval()
    model.resize_token_embeddings(VOCAB + ADDED)
    if workaround == "resize-decoder":
        resize_decoder(model.model.decoder, VOCAB + ADDED)
        model.config.tgt_vocab_size = VOCAB + ADDED
    model.to(device, dtype)
    ids = torch.randint(5, 90, (1, 8), device=device)
    labels = torch.full((1, 8), VOCAB + 1, device=device)
    loss = model(input_ids=ids, decoder_input_ids=ids, labels=labels).loss
    assert loss.isfinite(), "the loss is not finite"


if __name__ == "__main__":
    main(*sys.argv[1:])
