# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that never ends"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# timeout = 1
#
# [[tool.repromatrix.fails]]
# outcome = "times-out"
# ///
"""A case ends, and does not."""

import threading

threading.Event().wait()
