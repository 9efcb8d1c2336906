"""What the cases of a batch import, read from their source."""

from __future__ import annotations

from factories import case

from repromatrix.runner.execution.pool import wanted_imports

CODE = '''"""A toy must not break."""

from __future__ import annotations

import json, torch.nn.functional
from transformers import Trainer, AutoModel as Model
from transformers.models.gemma3 import modeling_gemma3
from . import neighbour
from .accelerate import Accelerator

import swift


def main() -> None:
    """Import late."""
    from peft import LoraConfig
    from transformers.cache_utils import Cache
'''


INNER = ["torch.nn.functional", "transformers.models.gemma3"]


def test_the_cases_of_a_batch_are_taken_together() -> None:
    other = case(code='"""Another."""\nfrom transformers import Cache\nimport accelerate\n')
    expected = {
        "modules": ["torch", "transformers", "accelerate", "peft", *INNER],
        "names": {"transformers": ["AutoModel", "Cache", "Trainer"], "peft": ["LoraConfig"]},
    }

    assert expected == wanted_imports([other, case(code=CODE)])


def test_a_module_that_only_a_workaround_may_import_is_not_prepared() -> None:
    late = '"""A toy."""\ndef main():\n    import torch._dynamo\n'

    assert wanted_imports([case(code=late)]) == {"modules": ["torch"], "names": {}}
