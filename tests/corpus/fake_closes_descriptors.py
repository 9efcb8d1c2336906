# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that closes what it did not open"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [tool.repromatrix.workarounds]
# all = "Close all of them."
#
# [[tool.repromatrix.fails]]
# workarounds = ["all"]
# raises = "MissingReport"
# match = "without a report"
# ///
"""Low descriptors may be closed; with `all` the report has nowhere to go."""

import os
import sys


def main(_precision: str, workaround: str = "") -> None:
    os.closerange(3, 65536 if workaround == "all" else 100)


if __name__ == "__main__":
    main(*sys.argv[1:])
