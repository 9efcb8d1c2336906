# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that wants all the memory"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [tool.repromatrix.workarounds]
# below = "Let a child process do it."
# ///
"""A case is modest, and is not: neither itself nor, with `below`, its child."""

import subprocess
import sys

EATER = "kept = [bytearray(b'x') * (32 << 20) for _ in range(128)]"


def main(_precision: str, workaround: str = "") -> None:
    if workaround == "below":
        subprocess.run([sys.executable, "-c", EATER], check=True)
    else:
        exec(EATER)  # noqa: S102


if __name__ == "__main__":
    main(*sys.argv[1:])
