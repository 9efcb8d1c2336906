# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case with 10 MB of exception message"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# raises = "ValueError"
# match = "xxx"
# ///
"""A message is short, and is not."""

raise ValueError("x" * 10_000_000)
