# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that prints after its end"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""Words that come too late change nothing."""

import sys
import threading


def chatter() -> None:
    while True:
        sys.stdout.write("and another thing\n")


threading.Thread(target=chatter, daemon=True).start()
