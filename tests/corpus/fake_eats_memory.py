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
# at-once = "In one step, and not in many."
# let-go = "Let a process do it that nobody waits for."
# ///
"""A case is modest, and is not: neither itself nor, with `below`, its child."""

import os
import subprocess
import sys
import time

EATER = "kept = [bytearray(b'x') * (32 << 20) for _ in range(128)]"


def main(_precision: str, workaround: str = "") -> None:
    if workaround == "below":
        subprocess.run([sys.executable, "-c", EATER], check=True)
    elif workaround == "at-once":
        bytearray(b"x") * (1536 << 20)
        time.sleep(60)
    elif workaround == "let-go":
        if not os.fork():
            subprocess.Popen([sys.executable, "-c", f"{EATER}; import time; time.sleep(60)"])
            os._exit(0)
        time.sleep(60)
    else:
        exec(EATER)  # noqa: S102


if __name__ == "__main__":
    main(*sys.argv[1:])
