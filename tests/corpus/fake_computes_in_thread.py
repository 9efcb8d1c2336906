# /// script
# requires-python = ">=3.10"
# dependencies = ["torch"]
#
# [tool.repromatrix]
# title = "A case that computes in a thread"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [tool.repromatrix.workarounds]
# pool = "Let a pool of threads do it."
# ///
"""What a thread computes counts as well."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def main(precision: str, workaround: str = "") -> None:
    ones = torch.ones(3, dtype=DTYPES[precision])
    if workaround == "pool":
        with ThreadPoolExecutor(1) as pool:
            pool.submit(ones.mul, 2).result()
    else:
        thread = threading.Thread(target=ones.mul, args=[2])
        thread.start()
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
