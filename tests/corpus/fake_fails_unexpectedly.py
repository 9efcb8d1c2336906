# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that fails though its block expects it to pass"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""A measured share is large, and is not."""

import sys

measured = {}


def main(_precision: str) -> None:
    measured["share"] = 0.25
    assert measured["share"] > 0.5, "the share is small"


if __name__ == "__main__":
    main(*sys.argv[1:])
