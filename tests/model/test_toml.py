"""Foreign tables to frozen records, each fault with its address."""

from __future__ import annotations

import pytest
from pydantic import Field

from repromatrix.runner.errors import RunnerError
from repromatrix.runner.model.toml import RequirementText, TomlRecord, read


class Inner(TomlRecord):
    deep_key: int = 0


class Outer(TomlRecord):
    some_name: str
    rows: tuple[Inner, ...] = ()
    named: dict[str, Inner] = Field(default={})
    needs: tuple[RequirementText, ...] = ()


def _faults(table: dict[str, object]) -> list[str]:
    with pytest.raises(RunnerError) as caught:
        read(Outer, table, where="x.toml", prefix="top")
    return [str(fault) for fault in caught.value.faults]


def test_keys_are_kebab_case() -> None:
    expected = Outer.model_construct(some_name="a", rows=(Inner.model_construct(deep_key=1),))

    actual = read(
        Outer, {"some-name": "a", "rows": [{"deep-key": 1}]}, where="x.toml", prefix="top"
    )

    assert expected == actual


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, "top.some-name: this key is required."),
        (
            {"some-name": 1},
            "top.some-name: invalid value 1; expected a valid string.",
        ),
        (
            {"some-name": "a", "row": []},
            (
                "top.row: unknown key. Did you mean 'rows'?"
                " Known keys: named, needs, rows, some-name."
            ),
        ),
        (
            {"some-name": "a", "rows": [{}, {"deep_key": 1}]},
            ("top.rows[1].deep_key: unknown key. Did you mean 'deep-key'? Known keys: deep-key."),
        ),
        (
            {"some-name": "a", "named": {"x": {"deep": 1}}},
            ("top.named.x.deep: unknown key. Did you mean 'deep-key'? Known keys: deep-key."),
        ),
        (
            {"some-name": "a", "needs": [1]},
            "top.needs[0]: invalid value 1: a requirement is a string.",
        ),
    ],
)
def test_a_wrong_key_is_named_with_its_address(table: dict[str, object], expected: str) -> None:
    assert [f"x.toml: {expected}"] == _faults(table)


def test_a_record_cannot_be_changed() -> None:
    record = Inner()
    with pytest.raises(ValueError, match="frozen"):
        record.deep_key = 2  # type: ignore[misc]
