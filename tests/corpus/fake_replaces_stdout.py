# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that puts something of its own in the place of its output"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# timeout = 1
#
# [tool.repromatrix.workarounds]
# stuck = "Let the output hang."
#
# [[tool.repromatrix.fails]]
# workarounds = ["stuck"]
# outcome = "times-out"
# ///
"""A report comes through, whatever stands in the place of the output; `stuck` never lets go."""

import sys
import threading


class Hostile:
    def __getattribute__(self, name: str) -> object:
        raise OSError(name)


class Stuck:
    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        threading.Event().wait()


def main(_precision: str, workaround: str = "") -> None:
    sys.stdout.write("before it was replaced")
    if workaround == "stuck":
        sys.stdout = sys.__stdout__ = Stuck()
    else:
        sys.stdout = sys.stderr = sys.stdin = Hostile()


if __name__ == "__main__":
    main(*sys.argv[1:])
