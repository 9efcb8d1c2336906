# /// script
# requires-python = ">=3.10"
# dependencies = ["torch"]
#
# [tool.repromatrix]
# title = "A toy breaks"
# reports = ["https://example.org/1"]
# area = "toys"
# models = ["toy"]
#
# [[tool.repromatrix.fails]]
# raises = "ValueError"
# match = "the cache has no dtype"
# ///
"""A toy must not break. It breaks because it is a toy."""

raise ValueError("sadly, the cache has no dtype at all")
