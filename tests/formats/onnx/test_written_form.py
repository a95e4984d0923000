"""ONNX files of quantkit's own form, and every other, told from their bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper

from quantkit.formats.onnx.protobuf import fields
from quantkit.formats.onnx.writing.conversion import ENGINE_OPERATORS, WRITTEN_OPERATORS
from quantkit.formats.onnx.written_form import written_problem
from tests.sound_onnx import FEATURES, lstm_onnx, written_onnx


def problem(content: bytes) -> str:
    return written_problem(content, WRITTEN_OPERATORS, ENGINE_OPERATORS) or ""


def varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def test_what_quantkit_writes_is_of_its_form() -> None:
    assert problem(written_onnx().SerializeToString()) == ""


def changed(change: Callable[[ModelProto], object]) -> bytes:
    made = written_onnx()
    change(made)
    return made.SerializeToString()


def attribute(made: ModelProto, name: str) -> Any:
    return next(each for each in made.graph.node[0].attribute if each.name == name)


def set_to(message: Any, **values: Any) -> None:
    for name, value in values.items():
        setattr(message, name, value)


OTHERS: dict[str, tuple[Callable[[ModelProto], object], str]] = {
    "weights elsewhere": (
        lambda m: m.graph.initializer[0].external_data.add(key="location", value="w.bin"), "a tensor has a field 13"
    ),
    "a place of weights": (lambda m: set_to(m.graph.initializer[0], data_location=1), "a tensor has a field 14"),
    "values as a list": (lambda m: m.graph.initializer[0].float_data.append(1.0), "a tensor has a field 4"),
    "another operator": (lambda m: set_to(m.graph.node[0], op_type="Loop"), "node 'conv' is of the operator 'Loop'"),
    "another's operator": (lambda m: set_to(m.graph.node[0], domain="ai.onnx.ml"), "operator 'ai.onnx.ml.Conv'"),
    "another's operators": (lambda m: m.opset_import.add(domain="ai.onnx.ml", version=1), "not ONNX's own"),
    "an operator set twice": (lambda m: m.opset_import.add(version=13), "a set of operators occurs twice"),
    "one operator set, another's": (lambda m: set_to(m.opset_import[0], domain="com.x"), "not ONNX's own"),
    "a tensor in an attribute": (
        lambda m: m.graph.node[0].attribute.append(helper.make_attribute("value", m.graph.initializer[0])),
        "an attribute has a field 5",
    ),
    "a network in an attribute": (
        lambda m: m.graph.node[0].attribute.append(helper.make_attribute("body", m.graph)), "an attribute has a field 6"
    ),
    "a function": (lambda m: m.functions.add(), "the model has a field 25"),
    "training": (lambda m: m.training_info.add(), "the model has a field 20"),
    "sparse weights": (lambda m: m.graph.sparse_initializer.add(), "the graph has a field 15"),
    "groups of none": (
        lambda m: set_to(attribute(m, "group"), i=0), r"node 'conv' \(Conv\) has an impossible 'group'"
    ),
    "a kernel of none": (lambda m: attribute(m, "kernel_shape").ints.append(0), "an impossible 'kernel_shape'"),
    "negative padding": (lambda m: attribute(m, "pads").ints.append(-1), "an impossible 'pads'"),
    "a stride beyond all": (
        lambda m: m.graph.node[0].attribute.append(helper.make_attribute("strides", [1 << 40])),
        "an impossible 'strides'",
    ),
    "one name for two": (lambda m: m.graph.initializer.append(m.graph.initializer[0]), "two tensors are called 'w'"),
    "too few values": (lambda m: m.graph.initializer[0].dims.append(2), "tensor 'w' of type 1 and shape"),
    "negative extents": (lambda m: m.graph.initializer[0].dims.extend([-1, -1]), "tensor 'w' of type 1 and shape"),
    "texts as values": (lambda m: set_to(m.graph.initializer[0], data_type=8), "tensor 'w' of type 8"),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_what_quantkit_does_not_write_is_refused(case: str) -> None:
    change, message = OTHERS[case]
    assert re.search(message, problem(changed(change))), problem(changed(change))


def test_an_integer_lstm_layer_of_an_engine_is_of_the_form() -> None:
    assert problem(lstm_onnx()) == ""
    assert problem(lstm_onnx("x w r b . h c . s z s z")) == ""
    assert "not ONNX's own" in (written_problem(lstm_onnx(), WRITTEN_OPERATORS) or "")


@pytest.mark.parametrize(
    "content",
    [
        lstm_onnx(w=np.zeros((1, FEATURES, 4), np.int8)),
        lstm_onnx(w=np.zeros((1, FEATURES, 8), np.uint8)),
        lstm_onnx(w=np.zeros((1, 0, 8), np.int8)),
        lstm_onnx(w=np.zeros((24,), np.int8)),
        lstm_onnx(r=np.zeros((1, 1, 8), np.int8)),
        lstm_onnx(b=np.zeros((1, 8), np.float32)),
        lstm_onnx(s=np.ones((1, 1), np.float32)),
        lstm_onnx(z=np.zeros((1, 4), np.int8)),
        lstm_onnx("x w b b . . . . s z s z"),
        lstm_onnx("x w r s . . . . s z s z"),
        lstm_onnx("x w r b . . . . z z s z"),
        lstm_onnx("x w r b . . . . s s s z"),
        lstm_onnx("x w r b . . . . s z z z"),
        lstm_onnx("x w r b . . . . s z s w"),
        lstm_onnx("x w r b . . . . s z s x"),
        lstm_onnx(attributes={"hidden_size": 3}),
        lstm_onnx(attributes={"hidden_size": 0}),
        # Of no units, each fits the others.
        lstm_onnx(
            attributes={"hidden_size": 0},
            w=np.zeros((1, FEATURES, 0), np.int8),
            r=np.zeros((1, 0, 0), np.int8),
            b=np.zeros((1, 0), np.float32),
            s=np.ones((1, 0), np.float32),
            z=np.zeros((1, 0), np.int8),
        ),
    ],
)
def test_constants_that_do_not_fit_a_layer_are_refused(content: bytes) -> None:
    assert "node 'lstm' has constants that do not fit an LSTM layer of" in problem(content)


@pytest.mark.parametrize(
    "content",
    [
        lstm_onnx(attributes={"direction": "bidirectional"}),
        lstm_onnx("x w r b z . . . s z s z"),
        lstm_onnx("x w r b . . . z s z s z"),
        lstm_onnx("x w r b . . . . s z s z w"),
        lstm_onnx("x w r b . . . . s z s"),
        lstm_onnx("x w r b"),
    ],
)
def test_other_layers_are_refused(content: bytes) -> None:
    assert "node 'lstm' is no LSTM layer in one direction" in problem(content)


def test_a_key_that_readers_cut_off_is_refused() -> None:
    """C++ drops what is beyond 32 bits, and finds external data where the field seems to be unknown."""
    made = written_onnx()
    tensor = made.graph.initializer[0].SerializeToString()
    made.graph.initializer[0].external_data.add(key="location", value="w.bin")
    entry = made.graph.initializer[0].SerializeToString()[len(tensor) :]
    spoofed = varint((1 << 32 | 13) << 3 | 2) + entry[1:]
    with pytest.raises(ValueError, match="has a field with the key"):
        list(fields(spoofed, 0, len(spoofed)))
    graph = varint(5 << 3 | 2) + varint(len(tensor) + len(spoofed)) + tensor + spoofed
    content = b"\x08\x08" + varint(7 << 3 | 2) + varint(len(graph)) + graph
    assert "has a field with the key" in problem(content)


@pytest.mark.parametrize("key", [0, 2, 7])
def test_there_is_no_field_0(key: int) -> None:
    with pytest.raises(ValueError, match=f"key {key}"):
        list(fields(bytes([key, 0]), 0, 2))


def test_what_stands_twice_is_refused() -> None:
    """Readers join the two graphs, or take the last."""
    content = written_onnx().SerializeToString()
    assert "field 7 of the model occurs twice" in problem(
        content + ModelProto(graph=written_onnx().graph).SerializeToString()
    )


@pytest.mark.parametrize("content", [b"", b"<?xml version='1.0'?><net/>", b"\x12\x03abc"])
def test_another_format_is_refused(content: bytes) -> None:
    assert problem(content) == "does not begin as quantkit's ONNX files do"


def test_every_cut_is_refused_or_of_the_form() -> None:
    content = written_onnx().SerializeToString()
    for end in range(len(content)):
        if not problem(content[:end]):
            # Between two fields of the model, what is left is whole.
            assert ModelProto.FromString(content[:end]).SerializeToString() == content[:end]
