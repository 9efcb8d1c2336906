# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that goes on behind its own end"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# raises = "MissingReport"
# match = "exit code 0 and without a report"
# ///
"""A process is over when it ends; what goes on behind it says nothing any more."""

import os
import time

if os.fork():
    os._exit(0)
os.setsid()
time.sleep(60)
