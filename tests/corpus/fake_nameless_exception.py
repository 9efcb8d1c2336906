# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case whose exception cannot be asked for anything"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# raises = "HostileError"
# match = "cannot be read"
# ///
"""An exception can be printed and pickled, and this one cannot even be named."""


class Meta(type):
    @property
    def __name__(cls) -> str:
        raise BrokenPipeError


class HostileError(Exception, metaclass=Meta):
    def __getattribute__(self, name: str) -> object:
        raise self

    def __str__(self) -> str:
        raise self

    def __reduce__(self) -> str:
        raise self


raise HostileError
