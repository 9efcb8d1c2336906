# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "A model class of your own is loaded with random weights: its _init_weights runs after"
# reports = ["https://github.com/huggingface/transformers/issues/46620"]
# area = "loading"
# models = "any"
# shown-with = ["bert"]
# concerns = """
# Every class outside transformers that inherits from PreTrainedModel and initialises weights in
# place, as in module.weight.data.normal_(); the models of transformers itself cannot meet it."""
# trigger = ["load"]
# symptom = ["wrong-numbers"]
#
# [tool.repromatrix.workarounds]
# load-state-dict = "Build the model, and load the weights with load_state_dict."
# torch-init = "Initialise with torch.nn.init.normal_ in _init_weights."
#
# [tool.repromatrix.snippets]
# load-state-dict = '''
# model = Tagger(config).to(dtype)
# model.load_state_dict(load_file(f"{folder}/model.safetensors"))'''
# torch-init = '''
# def _init_weights(self, module):
#     if isinstance(module, nn.Linear):
#         nn.init.normal_(module.weight, std=0.02)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.3.0,<5.13.0"]
# raises = "AssertionError"
# match = "the loaded model is not the one saved"
# where = "bert_custom_init_reload:main"
# fixed-by = "https://github.com/huggingface/transformers/pull/46876"
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=5.0.0,<5.2.0"]
# raises = "AssertionError"
# match = "the loaded model is not the one saved"
# where = "bert_custom_init_reload:main"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/46620"
# says = "from_pretrained returns random weights, and reports no key as missing."
# when = ["transformers>=5.3,<5.13"]
# outcome = "fails"
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/issues/46620"
# says = "The first bad commit is the rewrite of the loader for 5.0."
# when = ["transformers==5.0.0"]
# outcome = "fails"
# ///
"""A model class of your own must come back from `save_pretrained` as it was saved.

The loader calls `_init_weights` on modules that it has filled already. The library's own models
initialise through functions that spare what was loaded; code that writes to `weight.data`, as the
library's own did up to 4.57, overwrites it. Since 5.3 modules that are filled were left out for
code from the hub only, until 5.13 for every class outside the library.
"""

import os
import sys
import tempfile

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import BertConfig, BertModel, PreTrainedModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
WORKAROUNDS = {"", "load-state-dict", "torch-init"}
measured: dict[str, float] = {}


class Tagger(PreTrainedModel):
    """A class of your own, as the documentation of 4.x shows it."""

    config_class = BertConfig
    spares_loaded = False

    def __init__(self, config: BertConfig) -> None:
        """Build the encoder and the layer that names the tags."""
        super().__init__(config)
        self.bert = BertModel(config)
        self.tags = nn.Linear(config.hidden_size, 5)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear) and self.spares_loaded:
            nn.init.normal_(module.weight, std=0.02)
        elif isinstance(module, nn.Linear):
            module.weight.data.normal_(std=0.02)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Compute the logits of the tags."""
        return self.tags(self.bert(input_ids).last_hidden_state)


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    torch.set_grad_enabled(False)
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    Tagger.spares_loaded = workaround == "torch-init"
    config = BertConfig(**SIZES, num_attention_heads=2)
    model, ids = Tagger(config).to(device, dtype).eval(), torch.arange(8, device=device)[None]
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        if workaround == "load-state-dict":
            loaded = Tagger(config).to(dtype)
            loaded.load_state_dict(load_file(f"{folder}/model.safetensors"))
        else:
            loaded = Tagger.from_pretrained(folder, torch_dtype=dtype)
    exact, found = model(ids).float(), loaded.to(device).eval()(ids).float()
    measured["logits_relative_error"] = ((found - exact).norm() / exact.norm()).item()
    assert measured["logits_relative_error"] < 0.05, "the loaded model is not the one saved"


if __name__ == "__main__":
    main(*sys.argv[1:])
