# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that stops the process above it"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# outcome = "crashes"
# ///
"""A case leaves other processes alone, and does not.

Run by hand it would stop a shell, so it looks first whose child it is.
"""

import os
import signal
from pathlib import Path

parent = os.getppid()
assert b"serve" in Path(f"/proc/{parent}/cmdline").read_bytes().split(b"\0"), "not in a zygote"
os.kill(parent, signal.SIGSTOP)
