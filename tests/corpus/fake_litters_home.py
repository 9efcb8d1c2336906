# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that leaves settings for others in its home"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [tool.repromatrix.workarounds]
# again = "The same once more, in the next cell."
# ///
"""A case finds its home empty, whatever the one before it did."""

import os
import sys
from pathlib import Path

measured = {}


def main(_precision: str, _workaround: str = "") -> None:
    measured["found"] = 0
    for name in ("HOME", "HF_HOME"):
        folder = Path(os.environ[name])
        measured["found"] += len(list(folder.iterdir()))
        (folder / "accelerate").mkdir(parents=True)
        (folder / "accelerate" / "default_config.yaml").write_text("mixed_precision: fp16")


if __name__ == "__main__":
    main(*sys.argv[1:])
