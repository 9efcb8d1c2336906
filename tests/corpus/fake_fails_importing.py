# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.49"]
#
# [tool.repromatrix]
# title = "A case whose library does not have what it imports"
# reports = []
# found-by = "measurement"
# area = "fakes"
# models = ["fake"]
#
# [[tool.repromatrix.fails]]
# raises = "ImportError"
# match = "cannot import name 'NoSuchModelForCausalLM' from 'transformers'"
# ///
"""A library has a class, and has not."""

from transformers import NoSuchModelForCausalLM, PreTrainedModel  # noqa: F401
