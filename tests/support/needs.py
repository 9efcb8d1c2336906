"""What some tests need of the machine; `.ci/run` installs what can be installed."""

from __future__ import annotations

import pytest

from repromatrix.runner.execution import sandbox

_TROUBLE = sandbox.trouble()
bubblewrap = pytest.mark.skipif(bool(_TROUBLE), reason=_TROUBLE)
