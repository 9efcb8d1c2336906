# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that measures what is no number, then fails"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# raises = "AssertionError"
# match = "not finite"
# ///
"""What was measured is kept, after an exception too, and be it infinite."""

import math

measured = {"nan": math.nan, "inf": math.inf, "minus": -math.inf, "share": 0.5, "count": 3}
measured.update({"huge": 10**400, "text": "0.5", "flag": True, "nothing": None})
assert math.isfinite(measured["nan"]), "not finite"
