"""The script of every cell of the sweep: a worker forks with these imports at hand."""

import os
import sys

import accelerate  # noqa: F401 - imported before the fork
import peft  # noqa: F401
import torch  # noqa: F401
from transformers import PreTrainedModel, Trainer  # noqa: F401

sys.path.insert(0, os.environ["REPRO_RUNNER"])

from repromatrix.sweep.child.main import answer

payload = answer()
