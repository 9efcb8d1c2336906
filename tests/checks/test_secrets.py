"""The check of secrets, small; and that it finds what is there to be found."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
from toys import Checkout

from checks.secrets import TOKENS, Secret, _holding, tried

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.whole
def test_a_password_in_an_address_stands_nowhere_afterwards() -> None:
    planted, found, unused = tried(["PIP_INDEX_URL"])

    assert (1 + len(TOKENS), [], 0) == (planted, found, unused)


@pytest.mark.parametrize("padding", ["", "m", "me", "me:"])
def test_a_secret_is_found_in_every_form(padding: str, tmp_path: Path) -> None:
    secret = Secret("PIP_INDEX_URL")
    forms = {
        "plain": secret.word.encode(),
        "quoted": secret.quoted.encode(),
        "base64": base64.b64encode(f"{padding}{secret.word}".encode()),
        "hex": secret.word.encode().hex().encode(),
        "another": Secret("PIP_INDEX_URL").word.encode(),
    }
    for name, content in forms.items():
        (tmp_path / name).write_bytes(b"before " + content + b" after")
    checkout = Checkout(root=tmp_path, wheels=tmp_path)

    assert set(_holding(checkout, secret)) == set(forms) - {"another"}
