# /// script
# requires-python = ">=3.10"
# dependencies = ["torch"]
#
# [tool.repromatrix]
# title = "A case that changes what torch is for everybody"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""What a case does to its library is its own matter."""

import sys

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

ones = torch.ones(3, dtype=DTYPES[sys.argv[1]])
assert (ones + ones).sum().item() == 6.0
torch.set_default_dtype(torch.float64)
torch.set_default_device("meta")
torch.set_grad_enabled(False)
torch.manual_seed(77)
torch.Tensor.__add__ = torch.Tensor.__matmul__ = torch.ones = None
