# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case whose exception cannot be read"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# raises = "HostileError"
# match = "its message cannot be read: ZeroDivisionError"
# ///
"""An exception has a message, and this one has a fault of its own."""


class HostileError(Exception):
    def __str__(self) -> str:
        return str(1 / 0)


raise HostileError
