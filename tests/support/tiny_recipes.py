"""The content of a recipe, for tests."""

from __future__ import annotations

from typing import Any

CONTENT: dict[str, Any] = {
    "type": "llama",
    "class": "LlamaForCausalLM",
    "home": "4.49.0",
    "strategy": "names",
    "config": {"model_type": "llama", "hidden_size": 32},
    "inputs": {"input_ids": {"ids": [[5, 6]]}},
    "targets": {},
}
