# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that ends while its threads go on"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [tool.repromatrix.workarounds]
# not-daemon = "Threads that are waited for."
# ///
"""A daemon thread ends with its case; any other is waited for."""

import sys
import threading
import time

measured = {}


def forever() -> None:
    while True:
        time.sleep(0.01)


def a_little_longer() -> None:
    time.sleep(0.1)
    measured["waited"] = 1


def main(_precision: str, workaround: str = "") -> None:
    if workaround == "not-daemon":
        threading.Thread(target=a_little_longer).start()
    else:
        threading.Thread(target=forever, daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
