# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that leaves more than anybody wants to remove"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [tool.repromatrix.workarounds]
# deep = "Leave folders within folders."
# ///
"""What a case leaves in its folder is removed; with `deep` no path is long enough for it."""

import os
import sys
from pathlib import Path

NUMBER = 10_000


def main(_precision: str, workaround: str = "") -> None:
    if workaround == "deep":
        for _ in range(NUMBER // 4):
            Path("d").mkdir()
            os.chdir("d")
        return
    for number in range(NUMBER):
        os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))
    Path("link").symlink_to("/")
    Path().chmod(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
