"""The packages that decide what a case does: the only list of their names in Python."""

from __future__ import annotations

TRANSFORMERS = "transformers"
TORCH = "torch"
COMPANIONS = ("accelerate", "peft")
"""Pinned beside transformers: `companions` of `environments/matrix.toml`, for code that has no
matrix at hand. A test holds the two equal."""

MOVED = (TRANSFORMERS, *COMPANIONS)
"""What differs from release to release on purpose; torch is the same in every environment."""
UNDER_TEST = (TORCH, *MOVED)
"""In the order of import."""
DECIDING = (
    *(TRANSFORMERS, TORCH, *COMPANIONS),
    *("tokenizers", "huggingface-hub", "safetensors", "numpy"),
)
"""What most often makes the difference between two environments, the likeliest first."""
