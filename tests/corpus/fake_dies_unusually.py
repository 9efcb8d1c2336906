# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that dies by a signal without a name"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# outcome = "crashes"
# ///
"""Every signal has a name, and the real-time ones have none."""

import os
import signal

os.kill(os.getpid(), signal.SIGRTMIN + 1)
