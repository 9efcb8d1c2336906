# /// script
# requires-python = ">=3.10"
# dependencies = ["torch"]
#
# [tool.repromatrix]
# title = "A toy breaks"
# reports = ["https://example.org/1"]
# area = "toys"
# models = ["toy"]
# ///
"""A toy must not break. It breaks because it is a jouét."""
