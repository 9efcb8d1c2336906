# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that aborts"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# outcome = "crashes"
# ///
"""A library does not abort, and does."""

import os

os.abort()
