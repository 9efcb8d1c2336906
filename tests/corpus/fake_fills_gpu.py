# /// script
# requires-python = ">=3.10"
# dependencies = ["torch"]
#
# [tool.repromatrix]
# title = "A case for which a GPU is too small"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [tool.repromatrix.workarounds]
# cublas = "Let a library of CUDA be the one that finds no memory."
# ///
"""A case that does not fit has not failed: torch's own class says so, or a library's text."""

import sys

import torch


def main(_precision: str, workaround: str = "") -> None:
    if workaround:
        message = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"
        raise RuntimeError(message)
    message = "CUDA out of memory. Tried to allocate 2.00 GiB."
    raise torch.OutOfMemoryError(message)


if __name__ == "__main__":
    main(*sys.argv[1:])
