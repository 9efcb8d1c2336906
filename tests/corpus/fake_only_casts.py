# /// script
# requires-python = ">=3.10"
# dependencies = ["torch"]
#
# [tool.repromatrix]
# title = "A case that casts and never computes"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""A pass without a computation in the precision proves nothing about it."""

import sys

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def main(precision: str) -> None:
    ones = torch.ones(3, 3)
    ((ones + ones) @ ones).to(DTYPES[precision]).t().clone().contiguous()
    torch.zeros(3, dtype=DTYPES[precision]).normal_()


if __name__ == "__main__":
    main(*sys.argv[1:])
