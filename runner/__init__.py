"""Measure reported dtype bugs on every release of transformers, and say what the results mean.

A cell goes through `environments` (virtualenvs built), `planning` (which cells), `execution`
(running them), `worker` (inside the environment's own Python), `evidence` (what is kept) and
`judging` (what it means). The questions `bisect`, `compare` and `audit` each hold their search,
their answer and its wording. `cli` is what is typed. `tests/test_layout.py` holds who may import
whom.
"""
