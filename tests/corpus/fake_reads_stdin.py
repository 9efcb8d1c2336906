# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that waits for somebody to type"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""Nobody types anything."""

import sys

assert not sys.stdin.read()
assert not sys.stdin.buffer.read()
