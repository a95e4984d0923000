"""Whether an ONNX file has the form that quantkit writes, decided from its bytes before any engine reads it.

ONNX allows more than quantkit writes: operators that read files, loops, weights at an address in memory. Several
engines end the process when a file contradicts itself. So an engine gets an untrusted file only if quantkit could have
written it. The form: protobuf's encoding (https://protobuf.dev/programming-guides/encoding) and onnx.proto of
ONNX 1.19. This needs no ONNX library, since deployments have none.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Optional

from quantkit.formats.onnx.protobuf import DELIMITED, FOUR_BYTES, NUMBER, Field, fields, read_number


@dataclass(frozen=True)
class _Form:
    """The fields of a message by number: numbers, floats, texts, bytes, and messages with their names in errors.

    ``once`` are those that may occur only once: of several, protobuf takes the last or joins them.
    """

    numbers: frozenset[int] = frozenset()
    four_bytes: frozenset[int] = frozenset()
    texts: frozenset[int] = frozenset()
    sized: frozenset[int] = frozenset()
    messages: Mapping[int, tuple[_Form, str]] = field(default_factory=dict)
    once: frozenset[int] = frozenset()


def _of(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


_DIMENSION = _Form(numbers=_of(1), texts=_of(2), once=_of(1, 2))
_SHAPE = _Form(messages={1: (_DIMENSION, "an axis")})
_TENSOR_TYPE = _Form(numbers=_of(1), messages={2: (_SHAPE, "a shape")}, once=_of(1, 2))
_TYPE = _Form(messages={1: (_TENSOR_TYPE, "a type")}, once=_of(1))
_VALUE = _Form(texts=_of(1), messages={2: (_TYPE, "a type")}, once=_of(1, 2))
_TENSOR = _Form(numbers=_of(1, 2), texts=_of(8), sized=_of(9), once=_of(2, 8, 9))
_ATTRIBUTE = _Form(numbers=_of(3, 8, 20), four_bytes=_of(2, 7), texts=_of(1, 4, 9), once=_of(1, 2, 3, 4, 20))
_NODE = _Form(texts=_of(1, 2, 3, 4), messages={5: (_ATTRIBUTE, "an attribute")}, once=_of(3, 4))
_GRAPH = _Form(
    texts=_of(2),
    messages={1: (_NODE, "a node"), 5: (_TENSOR, "a tensor"), 11: (_VALUE, "an input"), 12: (_VALUE, "an output")},
    once=_of(2),
)
_OPSET = _Form(numbers=_of(2), texts=_of(1), once=_of(1, 2))
_ENTRY = _Form(texts=_of(1, 2), once=_of(1, 2))
_MODEL = _Form(
    numbers=_of(1),
    texts=_of(2, 3),
    messages={7: (_GRAPH, "the graph"), 8: (_OPSET, "an operator set"), 14: (_ENTRY, "an entry of the metadata")},
    once=_of(1, 2, 3, 7, 8),
)

# By number of ONNX's data type: float32, uint8, int8, int32 and int64.
_BYTES = {1: 4, 2: 1, 3: 1, 6: 4, 7: 8}

_AT_LEAST_ONE = frozenset({"blocksize", "dilations", "group", "hidden_size", "kernel_shape", "size", "strides"})
_AT_LEAST_ZERO = frozenset({"output_padding", "pads"})
_MOST = 1 << 31


def written_problem(content: bytes, operators: Container[str]) -> Optional[str]:
    """Why quantkit cannot have written a file; None if it can.

    Args:
        content: the file's bytes.
        operators: those that quantkit writes.
    """
    # Engines tell ONNX from their own formats by a file's first byte.
    if not content.startswith(b"\x08"):
        return "does not begin as quantkit's ONNX files do"
    try:
        model = _message(content, 0, len(content), _MODEL, "the model")
        for graph in model.get(7, ()):
            for tensor in graph.get(5, ()):
                _check_tensor(tensor)
            for node in graph.get(1, ()):
                _check_node(node, operators)
        if any(opset.get(1, [""]) != [""] for opset in model.get(8, ())):
            raise ValueError("it has operators that are not ONNX's own")
    except (IndexError, ValueError) as error:
        return f"is not as quantkit writes ONNX files: {error}"
    return None


_Message = dict[int, list[Any]]


def _message(content: bytes, place: int, end: int, form: _Form, what: str) -> _Message:
    """A message's values by field number: numbers, texts, messages, and the lengths of bytes."""
    message: _Message = {}
    for field_ in fields(content, place, end):
        values = message.setdefault(field_.number, [])
        values += _values(content, field_, form, what)
        if field_.number in form.once and len(values) > 1:
            raise ValueError(f"field {field_.number} of {what} occurs twice")
    return message


def _values(content: bytes, read: Field, form: _Form, what: str) -> Iterable[Any]:
    number, kind = read.number, read.kind
    if kind == NUMBER and number in form.numbers:
        return [_signed(read.value)]
    if kind == DELIMITED and number in form.numbers - form.once:
        return _packed(content, read)
    if kind in (FOUR_BYTES, DELIMITED) and number in form.four_bytes:
        return []
    if kind == DELIMITED and number in form.sized:
        return [read.last - read.first]
    if kind == DELIMITED and number in form.texts:
        return [content[read.first : read.last].decode()]
    if kind == DELIMITED and number in form.messages:
        inner, name = form.messages[number]
        return [_message(content, read.first, read.last, inner, name)]
    raise ValueError(f"{what} has a field {number}")


def _packed(content: bytes, read: Field) -> Iterator[int]:
    place = read.first
    while place < read.last:
        value, place = read_number(content, place)
        yield _signed(value)


def _signed(value: int) -> int:
    """The value of 64 bits in two's complement."""
    return value - (1 << 64) if value >> 63 else value


def _check_tensor(tensor: _Message) -> None:
    """Check that a tensor has as many bytes as its shape and type require."""
    (name,), (kind,), (size,) = tensor.get(8, [""]), tensor.get(2, [0]), tensor.get(9, [0])
    shape = tensor.get(1, [])
    if kind not in _BYTES or min(shape, default=0) < 0 or prod(shape) * _BYTES[kind] != size:
        raise ValueError(f"tensor {name!r} of type {kind} and shape {tuple(shape)} has {size} bytes")


def _check_node(node: _Message, operators: Container[str]) -> None:
    (name,), (operator,) = node.get(3, [""]), node.get(4, [""])
    if operator not in operators:
        raise ValueError(f"node {name!r} is of the operator {operator!r}")
    for attribute in node.get(5, ()):
        (key,) = attribute.get(1, [""])
        least = 1 if key in _AT_LEAST_ONE else 0 if key in _AT_LEAST_ZERO else -_MOST
        if any(not least <= value <= _MOST for value in (*attribute.get(3, ()), *attribute.get(8, ()))):
            raise ValueError(f"node {name!r} ({operator}) has an impossible {key!r}")
