# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that imports the case beside it"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# raises = "ModuleNotFoundError"
# match = "No module named 'fake_passes'"
# ///
"""A case is a stranger to every other."""

import fake_passes  # noqa: F401
