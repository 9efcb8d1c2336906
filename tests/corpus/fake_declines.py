# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that cannot judge here"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""A machine has what the case needs, and has not."""

import sys

sys.exit(125)
