# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that writes into every descriptor"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [tool.repromatrix.workarounds]
# held = "Open files until there is no descriptor left."
#
# [[tool.repromatrix.fails]]
# workarounds = [""]
# raises = "MissingReport"
# match = "exit code 0 and without a report"
# ///
"""A report that was written into is none; with `held` they are all full of files besides."""

import contextlib
import os
import sys


def main(_precision: str, workaround: str = "") -> None:
    if workaround == "held":
        with contextlib.suppress(OSError):
            while True:
                os.open("/dev/null", os.O_RDWR)
        return
    for descriptor in range(3, 1024):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"{}")


if __name__ == "__main__":
    main(*sys.argv[1:])
