# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that writes into its folder and leaves it"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [tool.repromatrix.workarounds]
# again = "The same once more, in the next cell."
# once-more = "And once more."
# ///
"""A case begins in an empty folder of its own, whatever the one before it did."""

import os
import sys
import tempfile
from pathlib import Path

measured = {}


def main(_precision: str, _workaround: str = "") -> None:
    measured["found"] = len(list(Path().iterdir()))
    Path("deep/er").mkdir(parents=True)
    Path("deep/er/litter").write_text("left behind")
    tempfile.mkstemp()
    os.chdir("deep/er")
    os.environ["TMPDIR"] = os.environ["HOME"] = "/nowhere"


if __name__ == "__main__":
    main(*sys.argv[1:])
