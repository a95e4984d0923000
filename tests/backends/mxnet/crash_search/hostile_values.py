"""Values that no network has, for attributes, shapes, types and tensors."""

from __future__ import annotations

import re

from tests.backends.mxnet.crash_search.sound_operators import Shape

_NUMBERS = [
    "0",
    "-1",
    "-2",
    "1",
    "3",
    "7",
    "100",
    "65536",
    "2147483647",
    "-2147483648",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "None",
]
_TUPLES = [
    "()",
    "(0,)",
    "(1,)",
    "(-1,)",
    "(0, 0)",
    "(1, 1)",
    "(-1, -1)",
    "(-3, -3)",
    "(2, 2)",
    "(1, 1, 1)",
    "(100, 100)",
    "(65536, 65536)",
    "(2147483647, 2147483647)",
    "(2147483648, 1)",
    "(9223372036854775807, 2)",
    "None",
    "(None, None)",
    "(0, 0, 0, 0)",
    "(-1, -1, -1, -1)",
    "(0, 0, 0, 0, 100000, 1, 1, 1)",
    "(0.5, nan)",
    "(1e38, -1)",
    f"({'1, ' * 40}1)",
    "0",
    "-1",
    "3",
]
_FLOATS = ["0", "nan", "inf", "-inf", "1e38", "-1", "1e-38", "None"]
_TEXTS = ["", "cpu(0)", "gpu(0)", "cpu(-1)", "0x41", "x" * 1000]
ODD_SHAPES: tuple[Shape, ...] = ((0,), (1,), (1,) * 32, (0, 3, 0, 3), (1, 1, 1, 1), (5, 4, 3, 2, 1), (3, 1), (1, 3, 2))
TYPES = ("uint8", "int8", "int32", "int64", "float16", "float64")
FILLS = ("ramp", "huge", "negative", "nan")


def values(description: str) -> list[str]:
    """The hostile values of an attribute, by MXNet's description of its type."""
    if description.startswith("{"):
        return [*re.findall(r"'([^']*)'", description.split("}")[0]), "nonsense"]
    for kind, fitting in (
        ("bool", ["0", "1", "None"]),
        ("Shape", _TUPLES),
        ("tuple", _TUPLES),
        ("float", _FLOATS),
        ("double", _FLOATS),
        ("string", _TEXTS),
    ):
        if kind in description:
            return fitting
    return _NUMBERS
