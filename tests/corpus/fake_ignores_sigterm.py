# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that never ends and will not be told to"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# timeout = 1
#
# [[tool.repromatrix.fails]]
# outcome = "times-out"
# ///
"""A case ends when it is asked to, and does not."""

import signal

for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(signum, signal.SIG_IGN)
while True:
    signal.pause()
