# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that leaves a process in a session of its own"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""What a case starts ends with it, even where it leaves the group and ignores signals."""

import subprocess
import sys

measured = {}
STUBBORN = """
import signal
for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(signum, signal.SIG_IGN)
while True:
    signal.pause()
"""
BETWEEN = """
import subprocess, sys
command = [sys.executable, "-c", sys.argv[1]]
print(subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL).pid)
"""

command = [sys.executable, "-c", BETWEEN, STUBBORN]
said = subprocess.run(command, stdout=subprocess.PIPE, check=True, start_new_session=True).stdout
measured["pid"] = int(said)
