# /// script
# requires-python = ">=3.10"
# dependencies = ["torch"]
#
# [tool.repromatrix]
# title = "A case that passes"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""Adding numbers works, and does."""

import sys

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def main(precision: str) -> None:
    ones = torch.ones(3, dtype=DTYPES[precision])
    assert (ones + ones).sum().item() == 6.0


if __name__ == "__main__":
    main(*sys.argv[1:])
