# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that leaves before anybody can ask it"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# raises = "MissingReport"
# match = "exit code 0 and without a report"
# ///
"""A process ends in its own time, and this one is gone at once."""

import os

os._exit(0)
