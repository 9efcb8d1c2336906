# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that kills its own group"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# outcome = "crashes"
# ///
"""A case ends all that it started, and itself with it."""

import os
import signal

assert os.getpgid(0) == os.getpid(), "not in a group of its own"
os.killpg(0, signal.SIGKILL)
