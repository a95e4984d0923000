"""Whether an ONNX file has the form that quantkit writes, decided from its bytes before any engine reads it.

ONNX allows more than quantkit writes: operators that read files, loops, weights at an address in memory. Several
engines end the process when a file contradicts itself. So an engine gets an untrusted file only if quantkit could have
written it. The form: protobuf's encoding (https://protobuf.dev/programming-guides/encoding) and onnx.proto of
ONNX 1.19. This needs no ONNX library, since deployments have none.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
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
_NODE = _Form(texts=_of(1, 2, 3, 4, 7), messages={5: (_ATTRIBUTE, "an attribute")}, once=_of(3, 4, 7))
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
    once=_of(1, 2, 3, 7),
)

# By number of ONNX's data type: float32, uint8, int8, int32 and int64.
_BYTES = {1: 4, 2: 1, 3: 1, 6: 4, 7: 8}
_FLOAT, _INT8 = 1, 3

_AT_LEAST_ONE = frozenset({"blocksize", "dilations", "group", "hidden_size", "kernel_shape", "size", "strides"})
_AT_LEAST_ZERO = frozenset({"output_padding", "pads"})
_MOST = 1 << 31


def written_problem(
    content: bytes, operators: Container[str], of_engines: Collection[tuple[str, str]] = ()
) -> Optional[str]:
    """Why quantkit cannot have written a file; None if it can.

    Args:
        content: the file's bytes.
        operators: those of ONNX that quantkit writes.
        of_engines: domain and name of others. All are LSTM layers of the form of ONNX Runtime's
            ``DynamicQuantizeLSTM``.
    """
    # Engines tell ONNX from their own formats by a file's first byte.
    if not content.startswith(b"\x08"):
        return "does not begin as quantkit's ONNX files do"
    try:
        model = _message(content, 0, len(content), _MODEL, "the model")
        domains = [domain for opset in model.get(8, ()) for domain in opset.get(1, [""])]
        if {*domains} - {"", *(domain for domain, _ in of_engines)}:
            raise ValueError("it has operators that are not ONNX's own")
        if len({*domains}) < len(domains):
            raise ValueError("a set of operators occurs twice")
        for graph in model.get(7, ()):
            tensors = _tensors(graph.get(5, ()))
            for node in graph.get(1, ()):
                (domain,), (operator,) = node.get(7, [""]), node.get(4, [""])
                if (domain, operator) in of_engines:
                    _check_lstm(node, tensors)
                elif domain or operator not in operators:
                    name = f"{domain}.{operator}" if domain else operator
                    raise ValueError(f"node {_name(node)!r} is of the operator {name!r}")
                _check_attributes(node)
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


_Tensors = Mapping[str, tuple[int, tuple[int, ...]]]
"""The types and shapes of tensors by name."""


def _tensors(messages: Iterable[_Message]) -> _Tensors:
    """Check that tensors have as many bytes as their shapes and types require, and names of their own."""
    tensors: dict[str, tuple[int, tuple[int, ...]]] = {}
    for tensor in messages:
        (name,), (kind,), (size,) = tensor.get(8, [""]), tensor.get(2, [0]), tensor.get(9, [0])
        shape = tuple(tensor.get(1, ()))
        if kind not in _BYTES or min(shape, default=0) < 0 or prod(shape) * _BYTES[kind] != size:
            raise ValueError(f"tensor {name!r} of type {kind} and shape {shape} has {size} bytes")
        if name in tensors:
            raise ValueError(f"two tensors are called {name!r}")
        tensors[name] = (kind, shape)
    return tensors


def _name(node: _Message) -> str:
    return str(node.get(3, [""])[0])


def _check_attributes(node: _Message) -> None:
    for attribute in node.get(5, ()):
        (key,) = attribute.get(1, [""])
        least = 1 if key in _AT_LEAST_ONE else 0 if key in _AT_LEAST_ZERO else -_MOST
        if any(not least <= value <= _MOST for value in (*attribute.get(3, ()), *attribute.get(8, ()))):
            raise ValueError(f"node {_name(node)!r} ({node.get(4, [''])[0]}) has an impossible {key!r}")


def _check_lstm(node: _Message, tensors: _Tensors) -> None:
    """Check that the constants of an integer LSTM layer fit each other, which engines take for granted."""
    keys = [attribute.get(1, [""])[0] for attribute in node.get(5, ())]
    _, *inputs = node.get(1, [""])
    if keys != ["hidden_size"] or len(inputs) != 11 or inputs[3] or inputs[6]:
        raise ValueError(f"node {_name(node)!r} is no LSTM layer in one direction")
    (hidden,) = node[5][0].get(3, [0])
    places = {"weights": 0, "recurrence": 1, "biases": 2, "scales": 7, "zeros": 8, "other scales": 9, "other zeros": 10}
    constants = {what: tensors.get(inputs[place], (0, ())) for what, place in places.items()}
    features = constants["weights"][1][1:2]
    row = {"scales": (_FLOAT, (1, 4 * hidden)), "zeros": (_INT8, (1, 4 * hidden))}
    wanted = {
        "weights": (_INT8, (1, *features, 4 * hidden)),
        "recurrence": (_INT8, (1, hidden, 4 * hidden)),
        "biases": (_FLOAT, (1, 8 * hidden)),
        **{f"{other}{what}": each for other in ("", "other ") for what, each in row.items()},
    }
    if constants != wanted or not features or min(*features, hidden) < 1:
        raise ValueError(f"node {_name(node)!r} has constants that do not fit an LSTM layer of {hidden} units")
