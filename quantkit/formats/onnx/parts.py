"""The number of parts of an ONNX file, counted in its bytes before a library makes an object of each.

An operator of two bytes takes more than a hundred in memory, an integer of one byte takes eight, and eight more as an
array. The formats: protobuf's encoding (https://protobuf.dev/programming-guides/encoding) and onnx.proto of ONNX 1.19.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from quantkit.formats.onnx import protobuf

MOST_PARTS = 1 << 19
"""The most operators, attributes, tensors, names and other messages and entries of lists of texts.

An operator has some ten parts, or thirty if the exporter adds shapes and source locations.
"""

MOST_BYTES = 1 << 26
"""The most bytes apart from tensors' values, 64 MiB.

Only ``raw_data`` and lists of floating-point numbers are values in this sense. Lists of integers, one byte each,
count as other bytes: exporters keep shapes and source locations in them.
"""

# Protobuf itself reads this many levels below the outermost.
_DEEPEST = 100

# By field number: the fields that are messages or entries of lists of texts, with their own such fields; and values.
_Fields = dict[int, Any]
_LEAF: _Fields = {}
_VALUES: _Fields = {}
_TENSOR: _Fields = {3: _LEAF, 4: _VALUES, 6: _LEAF, 9: _VALUES, 10: _VALUES, 13: _LEAF, 16: _LEAF}
_SPARSE: _Fields = {1: _TENSOR, 2: _TENSOR}
_SHAPED: _Fields = {2: {1: _LEAF}}
_TYPE: _Fields = {1: _SHAPED, 7: _LEAF, 8: _SHAPED}
_TYPE.update({4: {1: _TYPE}, 5: {2: _TYPE}, 9: {1: _TYPE}})
_VALUE: _Fields = {2: _TYPE, 4: _LEAF}
_GRAPH: _Fields = {}
_ATTRIBUTE: _Fields = {
    5: _TENSOR, 6: _GRAPH, 9: _LEAF, 10: _TENSOR, 11: _GRAPH, 14: _TYPE, 15: _TYPE, 22: _SPARSE, 23: _SPARSE,
}  # fmt: skip
_PLACE: _Fields = {2: {3: _LEAF, 4: {2: _LEAF}}}
_NODE: _Fields = {1: _LEAF, 2: _LEAF, 5: _ATTRIBUTE, 9: _LEAF, 10: _PLACE}
_GRAPH.update({
    1: _NODE, 5: _TENSOR, 11: _VALUE, 12: _VALUE, 13: _VALUE, 14: {2: _LEAF}, 15: _SPARSE, 16: _LEAF,
})  # fmt: skip
_FUNCTION: _Fields = {
    4: _LEAF, 5: _LEAF, 6: _LEAF, 7: _NODE, 9: _LEAF, 11: _ATTRIBUTE, 12: _VALUE, 14: _LEAF,
}  # fmt: skip
MODEL: _Fields = {
    7: _GRAPH, 8: _LEAF, 14: _LEAF, 20: {1: _GRAPH, 2: _GRAPH, 3: _LEAF, 4: _LEAF}, 25: _FUNCTION, 26: {3: _LEAF},
}  # fmt: skip
"""The fields of a ``ModelProto`` that are parts, each with a dictionary of the parts inside it."""


def parts_problem(content: bytes) -> Optional[str]:
    """Why a file has too many parts (``MOST_PARTS``), is too large (``MOST_BYTES``) or is truncated; None if it is not.

    It goes through the file once, skipping the values of tensors, and takes no memory.
    """
    parts, rest = 0, len(content)
    try:
        for part in _parts(content, 0, len(content), MODEL, _DEEPEST):
            if part.is_values:
                rest -= part.length
            else:
                parts += 1
            if parts > MOST_PARTS:
                return f"has more than {MOST_PARTS} operators, attributes, tensors and names"
    except IndexError:
        return "is not a complete ONNX file (it breaks off)"
    except ValueError as error:
        return f"is not a complete ONNX file ({error})"
    if rest > MOST_BYTES:
        return f"has {rest} bytes besides the values of its tensors, more than {MOST_BYTES}"
    return None


class _Part(NamedTuple):
    """A part, or the values of a tensor, and how many bytes it has."""

    is_values: bool
    length: int


def _parts(content: bytes, place: int, end: int, fields: _Fields, levels: int) -> Iterator[_Part]:
    """Each part of the message between two offsets, and the values of tensors."""
    if not levels:
        raise ValueError("it nests too deep")
    for part in protobuf.fields(content, place, end):
        inside = fields.get(part.number) if part.kind == protobuf.DELIMITED else None
        if inside is not None:
            yield _Part(inside is _VALUES, part.last - part.first)
            if inside:
                yield from _parts(content, part.first, part.last, inside, levels - 1)
