from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from quantkit.files.toml import toml_text, toml_value

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)))
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
VALUES = st.recursive(TEXTS | NUMBERS | st.booleans(), st.lists, max_leaves=8)
KEYS = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=8)


@given(VALUES)
def test_values_are_read_back(value: object) -> None:
    assert tomllib.loads(f"x = {toml_value(value)}")["x"] == value  # type: ignore[arg-type]


@given(st.dictionaries(KEYS, TEXTS | NUMBERS), st.dictionaries(TEXTS, NUMBERS))
def test_documents_are_read_back(entries: dict[str, object], table: dict[str, object]) -> None:
    text = toml_text(entries, {"table.own": table})  # type: ignore[arg-type, dict-item]
    expected = {**entries, **({"table": {"own": table}} if table else {})}
    if not (table and "table" in entries):
        assert tomllib.loads(text) == expected


def test_a_table_without_entries_is_left_out() -> None:
    assert toml_text({"a": 1}, {"b": {}, "c": {"d": True}}) == "a = 1\n\n[c]\nd = true\n"
