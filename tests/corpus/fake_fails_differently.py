# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that fails, but not as its block says"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# raises = "KeyError"
# match = "another key"
# ///
"""A key is there, and is not."""

import sys


def main(_precision: str) -> None:
    {}["absent"]


if __name__ == "__main__":
    main(*sys.argv[1:])
