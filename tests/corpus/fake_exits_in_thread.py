# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case of which a thread wants to exit"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [tool.repromatrix.workarounds]
# hard = "End the whole process."
#
# [[tool.repromatrix.fails]]
# workarounds = ["hard"]
# raises = "MissingReport"
# match = "exit code 3 and without a report"
# ///
"""A thread that exits ends itself; with `hard` it ends everything."""

import os
import sys
import threading


def main(_precision: str, workaround: str = "") -> None:
    leave = os._exit if workaround == "hard" else sys.exit
    thread = threading.Thread(target=leave, args=[3])
    thread.start()
    thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
