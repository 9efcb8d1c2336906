# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that calls itself"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [tool.repromatrix.workarounds]
# without-end = "Take the limit away."
# in-c = "Let C call itself."
#
# [[tool.repromatrix.fails]]
# workarounds = [""]
# raises = "RecursionError"
# match = "maximum recursion depth exceeded"
#
# [[tool.repromatrix.fails]]
# workarounds = ["in-c"]
# outcome = "crashes"
# ///
"""A recursion is stopped; with `without-end` by nobody, with `in-c` by the end of the stack."""

import sys


def deeper(level: int) -> int:
    return deeper(level + 1)


def main(_precision: str, workaround: str = "") -> None:
    if workaround:
        sys.setrecursionlimit(1 << 30)
    if workaround == "in-c":
        nested: list[object] = []
        for _ in range(1 << 20):
            nested = [nested]
        repr(nested)
    deeper(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
