"""Words for texts of others."""

from __future__ import annotations

from repromatrix.runner.text import first_sentence


def test_a_sentence_does_not_end_inside_a_version() -> None:
    assert first_sentence("4.50.0\nfails. So it is.") == ("4.50.0 fails.", "So it is.")
