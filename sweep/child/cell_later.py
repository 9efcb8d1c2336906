"""The script of a cell whose recipe has inputs that only later releases take."""

import os
import sys

import accelerate  # noqa: F401 - imported before the fork
import peft  # noqa: F401
import torch  # noqa: F401
from transformers import PreTrainedModel, Trainer  # noqa: F401

sys.path.insert(0, os.environ["REPRO_RUNNER"])

from repromatrix.sweep.child.later import answer

payload = answer()
