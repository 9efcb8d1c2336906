# /// script
# requires-python = ">=3.10"
# dependencies = ["torch"]
#
# [tool.repromatrix]
# title = "A case that fails only where torch really compiles"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [tool.repromatrix.workarounds]
# eager = "Capture the graph and run it as it is."
#
# [[tool.repromatrix.fails]]
# raises = "BackendCompilerFailed"
# match = "object has no attribute 'no_such_pass'"
# ///
"""A graph can be compiled, and the backend refuses; under a dispatch mode nobody asks it."""

import sys

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def refusing(graph: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> None:
    graph.no_such_pass()


def main(precision: str, workaround: str = "") -> None:
    backend = "eager" if workaround == "eager" else refusing
    double = torch.compile(lambda ones: ones + ones, backend=backend)
    double(torch.ones(3, dtype=DTYPES[precision]))


if __name__ == "__main__":
    main(*sys.argv[1:])
