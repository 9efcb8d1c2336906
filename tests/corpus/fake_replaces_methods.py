# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that breaks the standard library"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [tool.repromatrix.workarounds]
# fails = "Raise something as well."
#
# [[tool.repromatrix.fails]]
# workarounds = ["fails"]
# raises = "KeyError"
# match = "mine"
# ///
"""A report comes through, whatever a case does; with `fails` it raises after it."""

import builtins
import contextlib
import json
import os
import signal
import sys
import threading
import time
import traceback


def main(_precision: str, workaround: str = "") -> None:
    json.JSONEncoder.encode = json.JSONEncoder.iterencode = json.JSONEncoder.default = None
    json.dumps = json.loads = os.write = os._exit = os.getpid = os.kill = None
    time.monotonic = time.perf_counter = time.process_time = None
    traceback.extract_tb = traceback.format_exc = contextlib.suppress = None
    threading._shutdown = signal.pthread_sigmask = None
    builtins.str = builtins.isinstance = builtins.len = builtins.dict = None
    sys.modules.clear()
    if workaround == "fails":
        {}["mine"]


if __name__ == "__main__":
    main(*sys.argv[1:])
