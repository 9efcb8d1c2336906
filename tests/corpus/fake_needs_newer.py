# /// script
# requires-python = ">=3.10"
# dependencies = ["transformers>=99"]
#
# [tool.repromatrix]
# title = "A case for releases that are not there yet"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# ///
"""A case runs where its dependencies are, and nowhere else."""
