# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that ends with a text instead of a number"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# raises = "SystemExit"
# match = "words instead of a number"
# ///
"""A program says how it ended, be it in words."""

import sys

sys.exit("words instead of a number")
