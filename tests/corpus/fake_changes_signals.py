# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that changes how signals are handled"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""How a case handles signals is its own matter."""

import signal

for signum in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGALRM, signal.SIGUSR1):
    signal.signal(signum, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
