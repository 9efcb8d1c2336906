# /// script
# requires-python = ">=3.10"
# dependencies = ["huggingface-hub"]
#
# [tool.repromatrix]
# title = "A case that sets what its library reads at import"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
# isolation = "process"
# ///
"""A setting that is made before the import is in force."""

import os

os.environ["HF_HUB_DOWNLOAD_TIMEOUT"] = "77"

from huggingface_hub import constants

assert constants.HF_HUB_DOWNLOAD_TIMEOUT == 77
