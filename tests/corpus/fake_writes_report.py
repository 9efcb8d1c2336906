# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that guesses where reports go"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""A report is the runner's, whatever is written into every open descriptor."""

import contextlib
import json
import os

forged = json.dumps({"exit": 1, "error_class": "ForgedError", "message": "forged"}).encode()
for descriptor in range(3, 199):
    with contextlib.suppress(OSError):
        os.write(descriptor, forged)
