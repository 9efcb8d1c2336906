# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that reads where nothing is"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# outcome = "crashes"
# ///
"""Address 0 can be read, and cannot."""

import ctypes

ctypes.string_at(0)
