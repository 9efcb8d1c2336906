# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that prints 1 GB"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""Output is kept within bounds, however much there is."""

import os

FLOOD = b"a flood\n" * (1 << 20)

os.write(1, b"the first words\n")
for _ in range((1 << 30) // len(FLOOD)):
    os.write(1, FLOOD)
os.write(1, b"the last words\n")
