# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case whose main thread ends before the others"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# timeout = 1
#
# [[tool.repromatrix.fails]]
# outcome = "times-out"
# ///
"""A process ends with its main thread, and does not: what is left of it looks dead."""

import ctypes
import threading
import time


def forever() -> None:
    while True:
        time.sleep(0.01)


threading.Thread(target=forever, daemon=True).start()
ctypes.CDLL(None).syscall(60, 0)  # exit of this thread alone, on x86-64
