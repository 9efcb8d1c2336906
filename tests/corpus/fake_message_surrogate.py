# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case whose exception is not valid text"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# raises = "LookupError"
# match = "absent-"
# ///
"""A message can be stored, though a file name in it is no UTF-8."""

import os

raise LookupError(os.fsdecode(b"absent-\xff"))
