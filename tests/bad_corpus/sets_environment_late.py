# /// script
# requires-python = ">=3.10"
# dependencies = ["torch"]
#
# [tool.repromatrix]
# title = "A toy breaks"
# reports = ["https://example.org/1"]
# area = "toys"
# models = ["toy"]
# ///
"""A toy must not break. It breaks because it is a toy."""

import os

os.environ["OMP_NUM_THREADS"] = "7"
import torch  # noqa: E402, F401
