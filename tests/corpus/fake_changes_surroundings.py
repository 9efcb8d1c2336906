# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that changes all that a process has of its own"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""What a case does to itself is its own matter."""

import locale
import os
import resource
import sys

os.environ.clear()
os.environ["HF_HOME"] = os.environ["HOME"] = os.environ["TMPDIR"] = "/nowhere"
os.umask(0o777)
os.chdir("/")
os.nice(5)
locale.setlocale(locale.LC_ALL, "C")
for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_STACK):
    resource.setrlimit(limit, (0, 0))
sys.path.clear()
sys.argv.clear()
sys.setrecursionlimit(200)
sys.setswitchinterval(1)
