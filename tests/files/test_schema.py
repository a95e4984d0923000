"""The first fault of a document, and that no more are looked for."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import ConfigDict, TypeAdapter, ValidationError

from quantkit.files.schema import FirstFaultOnly, Many, first_fault
from tests.sound_files import quantized_files

STRICT = ConfigDict(strict=True)


def fault(kind: Any, content: bytes) -> ValidationError:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(kind, config=STRICT).validate_json(content)
    return raised.value


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (Many[int], b"[1, " + b"true, " * 1000 + b"2]"),
        (Annotated[dict[str, int], FirstFaultOnly()], b'{"1": ' + b'true, "0": ' * 1000 + b"2}"),
    ],
)
def test_validation_ends_at_the_first_fault(kind: Any, content: bytes) -> None:
    error = fault(kind, content)
    assert error.error_count() == 1
    assert first_fault(error) == ("1", "Input should be a valid integer")


def test_a_fault_of_the_whole_has_no_place_and_places_are_short() -> None:
    assert first_fault(fault(Many[int], b"3"))[0] == ""
    assert len(first_fault(fault(dict[str, int], b'{"' + b"x" * 10_000 + b'": true}'))[0]) == 200


def test_what_is_sound_is_read() -> None:
    assert TypeAdapter(Many[int], config=STRICT).validate_json(b"[1, 2]") == (1, 2)


@pytest.mark.usefixtures("engine")
def test_lists_in_bundles_end_at_the_first_fault() -> None:
    from quantkit.bundle.quantization import _schema

    content = quantized_files()[0]["quantization.json"]
    broken = content.replace(b'"operators": [', b'"operators": [' + b"0, " * 1000)
    assert broken != content
    with pytest.raises(ValidationError) as raised:
        _schema().validate_json(broken)
    assert raised.value.error_count() == 1
