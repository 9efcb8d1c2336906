# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that imports what runs it"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# raises = "ModuleNotFoundError"
# match = "No module named 'runner'"
# ///
"""A case is a stranger to the runner."""

import runner.inside.child  # noqa: F401
