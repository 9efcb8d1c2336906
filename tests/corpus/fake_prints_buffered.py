# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that prints as people print"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""What was printed is kept, though nobody flushed it."""

import sys

sys.stdout.write("printed")
sys.stderr.write(" and complained")
