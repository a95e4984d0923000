"""The parts of ONNX files, counted in their bytes, against what the library makes of these."""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, helper

from quantkit.formats.onnx import parts as bounds
from quantkit.formats.onnx.parts import _DEEPEST, _VALUES, MODEL, _parts, parts_problem
from tests.formats.onnx.reading import hostile
from tests.sound_onnx import onnx_model, onnx_outside


def counted(content: bytes) -> int:
    return sum(not part.is_values for part in _parts(content, 0, len(content), MODEL, _DEEPEST))


def parts_of(message: Any) -> int:
    """The messages and entries of lists of texts in a message, as the library has them."""
    found = 0
    for field, value in message.ListFields():
        values = value if field.is_repeated else [value]
        if field.message_type is not None:
            found += sum(1 + parts_of(each) for each in values)
        elif field.is_repeated and field.cpp_type == field.CPPTYPE_STRING:
            found += len(values)
    return found


def everything(descriptor: Any, levels: int = 5) -> Any:
    """A message with something in each of its fields."""
    from google.protobuf.message_factory import GetMessageClass

    message = GetMessageClass(descriptor)()
    for field in descriptor.fields:
        if field.message_type is not None:
            if levels:
                inner = everything(field.message_type, levels - 1)
                target = getattr(message, field.name)
                target.extend([inner, inner]) if field.is_repeated else target.CopyFrom(inner)
        else:
            value = "text" if field.cpp_type == field.CPPTYPE_STRING else 1
            value = value.encode() if field.type == field.TYPE_BYTES else value
            if field.is_repeated:
                getattr(message, field.name).extend([value] * 3)
            elif field.cpp_type != field.CPPTYPE_ENUM:
                setattr(message, field.name, value)
    return message


def _branches() -> ModelProto:
    inner = helper.make_graph([helper.make_node("Neg", ["a"], ["b"], names=["x", "y"])], "inner", [], [])
    node = helper.make_node("If", ["c"], ["d"], then_branch=inner, else_branch=inner)
    weights = helper.make_tensor("w", TensorProto.STRING, [2], [b"one", b"two"])
    return helper.make_model(helper.make_graph([node], "g", [], [], [weights]))


@pytest.mark.parametrize(
    "content",
    [
        onnx_model().SerializeToString(),
        onnx_outside()[0],
        _branches().SerializeToString(),
        everything(ModelProto.DESCRIPTOR).SerializeToString(),
        b"",
    ],
)
def test_as_many_as_the_library_makes(content: bytes) -> None:
    assert counted(content) == parts_of(ModelProto.FromString(content))
    assert parts_problem(content) is None


def test_every_message_of_the_format_is_known() -> None:
    """With what lies in it; a new version of the package may bring new ones."""
    known: dict[str, Any] = {}

    def check(descriptor: Any, fields: dict[int, Any]) -> None:
        if descriptor.full_name in known:
            assert known[descriptor.full_name] is fields
            return
        known[descriptor.full_name] = fields
        values = {number for number, inside in fields.items() if inside is _VALUES}
        assert values == ({4, 9, 10} if descriptor.full_name == "onnx.TensorProto" else set())
        texts = {each.number for each in descriptor.fields if each.is_repeated and each.cpp_type == each.CPPTYPE_STRING}
        inner = {each.number: each.message_type for each in descriptor.fields if each.message_type is not None}
        assert set(fields) == texts | set(inner) | values, descriptor.full_name
        for number, message in inner.items():
            check(message, fields[number])

    check(ModelProto.DESCRIPTOR, MODEL)


def _holding(**values: Any) -> bytes:
    """A network with one tensor that has these fields."""
    model = _branches()
    for name, value in values.items():
        field = getattr(model.graph.initializer[0], name, None)
        setattr(model.graph.initializer[0], name, value) if isinstance(field, bytes) else field.extend(value)
    return model.SerializeToString()


@pytest.mark.parametrize("name", ["raw_data", "float_data", "double_data"])
def test_values_may_be_many(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_BYTES", len(_branches().SerializeToString()) + 20)
    content = _holding(raw_data=b"1" * 1000) if name == "raw_data" else _holding(**{name: [1.0] * 1000})
    assert parts_problem(content) is None


@pytest.mark.parametrize("name", ["int32_data", "int64_data", "uint64_data"])
def test_integers_of_a_byte_each_count(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = _holding(**{name: [1] * 1000})
    monkeypatch.setattr(bounds, "MOST_BYTES", len(content))
    assert parts_problem(content) is None
    monkeypatch.setattr(bounds, "MOST_BYTES", len(content) - 1)
    assert f"has {len(content)} bytes besides the values of its tensors" in str(parts_problem(content))


@pytest.mark.parametrize("content", [onnx_model().SerializeToString(), _branches().SerializeToString()])
def test_parts_may_be_as_many_as_is_said(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = parts_of(ModelProto.FromString(content))
    monkeypatch.setattr(bounds, "MOST_PARTS", parts)
    assert parts_problem(content) is None
    monkeypatch.setattr(bounds, "MOST_PARTS", parts - 1)
    assert parts_problem(content) == f"has more than {parts - 1} operators, attributes, tensors and names"


def _nested(messages: int) -> bytes:
    """A model of so many messages, each in the one before: of a graph the operator, its attribute, in that a graph."""
    content = b""
    for number in [*islice(cycle([1, 5, 6]), messages - 2)][::-1]:
        content = hostile.field(number, content)
    return hostile.field(7, content)


def test_messages_may_nest_as_deep_as_the_library_reads_them() -> None:
    """It counts those in the outermost one."""
    assert parts_problem(_nested(_DEEPEST)) is None
    assert parts_problem(_nested(_DEEPEST + 1)) == "is not a complete ONNX file (it nests too deep)"
    ModelProto.FromString(_nested(_DEEPEST + 1))
    with pytest.raises(DecodeError):
        ModelProto.FromString(_nested(_DEEPEST + 2))
