# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that forks and lets both go on"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""What a child does is not what its parent does."""

import os

child = os.fork()
if child:
    measured = {"child": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}
else:
    raise KeyError
