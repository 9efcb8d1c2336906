# /// script
# requires-python = ">=3.10"
# dependencies = []
#
# [tool.repromatrix]
# title = "A case that passes though its block expects it to fail"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# raises = "KeyError"
# match = "any key"
# ///
"""Nothing is wrong, whatever the block says."""
