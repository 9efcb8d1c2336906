# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case whose output is not text"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""Output need not be text."""

import os

os.write(1, bytes(range(256)))
