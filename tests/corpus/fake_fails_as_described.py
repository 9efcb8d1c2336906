# /// script
# requires-python = ">=3.10"
# dependencies = ["torch"]
#
# [tool.repromatrix]
# title = "A case that fails as its block says"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# raises = "RuntimeError"
# match = "expected m1 and m2 to have the same dtype"
# ///
"""A product of two precisions works, and does not: torch refuses to mix them."""

import sys

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def main(precision: str) -> None:
    square = torch.ones(2, 2, dtype=DTYPES[precision])
    (square + square) @ square.double()


if __name__ == "__main__":
    main(*sys.argv[1:])
