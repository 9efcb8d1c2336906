# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that replaces what its report is made with"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""A report comes through, whatever a case does to the standard library."""

import json
import os
import traceback

json.dumps = json.loads = os._exit = os.write = traceback.extract_tb = None
