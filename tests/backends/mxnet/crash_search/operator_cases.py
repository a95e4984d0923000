"""Networks of one operator each, with values that no network has: what a stranger's symbol file could hold."""

from __future__ import annotations

import ctypes
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.formats.mxnet import nnvm
from quantkit.ir.allowed_operators import FUSED, OPERATORS
from quantkit.ir.attribute_bounds import output_count
from tests.backends.mxnet.crash_search.hostile_values import FILLS, ODD_SHAPES, TYPES, values
from tests.backends.mxnet.crash_search.sound_operators import (
    CONVOLVED,
    DENSE,
    MAPS,
    PAIR,
    RANGE,
    REQUIRED,
    SHAPES,
    SOUND,
    Shape,
)


@dataclass(frozen=True)
class Case:
    """An operator with its attributes and the shapes of its first inputs; those of the others follow if they can.

    ``types`` are of the inputs in turn (the last for all that follow), ``fill`` is what they hold.
    """

    op: str
    attrs: dict[str, str]
    shapes: tuple[Shape, ...]
    inputs: int
    types: tuple[str, ...] = ("float32",)
    fill: str = "ramp"
    all_outputs: bool = False
    body: Any = field(default=None, compare=False)

    def symbol(self) -> str:
        """As symbol JSON, with the inputs ``i0``, ``i1`` and so on."""
        nodes: list[dict[str, Any]] = [{"op": "null", "name": f"i{each}", "inputs": []} for each in range(self.inputs)]
        edges = [[each, 0, 0] for each in range(self.inputs)]
        node: dict[str, Any] = {"op": self.op, "name": "x", "attrs": self.attrs, "inputs": edges}
        if self.body is not None:
            node["subgraphs"] = [self.body]
        count = output_count(self.op, self.attrs) if self.all_outputs else 1
        return json.dumps({"nodes": [*nodes, node], "heads": [[self.inputs, each, 0] for each in range(count)]})


def cases(seed: int, combined: int) -> Iterator[Case]:
    """Every operator with every attribute at every hostile value, then so many random combinations of each."""
    chance = random.Random(seed)
    for op, parameters in _distinct().items():
        for number, sound in enumerate(_sound_cases(op, parameters)):
            singles = list(_one_change(sound, parameters))
            yield from (sound, replace(sound, all_outputs=True), *singles)
            for _ in range(combined if number == 0 else combined // 4):
                yield _combined(sound, chance.sample(singles, min(len(singles), chance.randint(2, 4))))


def _one_change(sound: Case, parameters: dict[str, str]) -> Iterator[Case]:
    for fill in FILLS[1:]:
        yield replace(sound, fill=fill)
    for type_ in TYPES:
        for types in ((type_,), ("float32", type_), (type_, "float32")):
            yield replace(sound, types=types)
            yield replace(sound, types=types, fill="negative")
    for name, description in parameters.items():
        for value in values(description):
            yield replace(sound, attrs={**sound.attrs, name: value})
    for position in range(sound.inputs):
        for shape in ODD_SHAPES:
            shapes = (*sound.shapes, *RANGE * sound.inputs)[: max(position + 1, len(sound.shapes))]
            yield replace(sound, shapes=(*shapes[:position], shape, *shapes[position + 1 :]))
    for inputs in range(max(sound.inputs - 2, 0), sound.inputs + 3):
        yield replace(sound, inputs=inputs)


def _combined(sound: Case, changed: Sequence[Case]) -> Case:
    """All the changes at once."""
    attrs = {
        **sound.attrs,
        **{key: text for case in changed for key, text in case.attrs.items() if sound.attrs.get(key) != text},
    }
    found: dict[str, Any] = {"attrs": attrs}
    for case in changed:
        found.update(
            {
                name: getattr(case, name)
                for name in ("shapes", "types", "fill")
                if getattr(case, name) != getattr(sound, name)
            }
        )
    return replace(sound, **found)


def _sound_cases(op: str, parameters: dict[str, str]) -> Iterator[Case]:
    """The operator as networks use it, in up to three ways."""
    fewest, most, _ = OPERATORS[op]
    if op in FUSED:
        yield from _fused_cases(op)
    elif op in SOUND:
        for attrs, shapes in SOUND[op]:
            inputs = max(int(attrs.get("num_args", 0)), min(max(fewest, len(shapes)), most))
            if op == "RNN" and attrs["mode"] == "lstm":
                inputs = 4
            if attrs.get("num_args") and op.endswith("quantized_concat"):
                inputs, attrs = 6, {**attrs, "num_args": "2"}
            yield Case(op, attrs, tuple(shapes), inputs)
    else:
        attrs = {name: REQUIRED.get(name, "1") for name, text in parameters.items() if "required" in text}
        for inputs in sorted({fewest, min(most, 3)} - ({0} if most else set())):
            if "num_args" in attrs:
                attrs["num_args"] = str(inputs)
            known = itertools.chain(
                *(itertools.product(SHAPES, repeat=count) for count in range(1, min(inputs, 2) + 1))
            )
            found = (Case(op, dict(attrs), shapes, inputs) for shapes in (known if inputs else [()]))
            yield from itertools.islice((case for case in found if fits(case)), 2)


def _fused_cases(op: str) -> Iterator[Case]:
    inside = CONVOLVED if op == "_sg_mkldnn_conv" else DENSE
    shapes = (MAPS, (4, 4, 3, 3)) if op == "_sg_mkldnn_conv" else ((2, 8), (4, 8))
    body = {"nodes": [*PAIR, inside], "heads": [[2, 0, 0]]}
    calibrated = {"quantized": "true", "min_calib_range": "-1", "max_calib_range": "1"}
    yield Case(op, {}, shapes, 2, body=body)
    if op == "_sg_mkldnn_conv":
        summed = {"op": "elemwise_add", "name": "s", "attrs": {}, "inputs": [[2, 0, 0], [3, 0, 0]]}
        nodes = [*PAIR, CONVOLVED, {"op": "null", "name": "d", "inputs": []}, summed]
        both, with_sum = {"nodes": nodes, "heads": [[4, 0, 0]]}, {"with_sum": "true"}
        yield Case(op, with_sum, (*shapes, (2, 4, 4, 4)), 3, body=both)
        yield Case(
            op,
            {**calibrated, **with_sum},
            (*shapes, (2, 4, 4, 4), *RANGE, *RANGE),
            7,
            ("uint8", "float32", "int8", "float32"),
            body=both,
        )
    yield Case(op, calibrated, (*shapes, *RANGE), 4, types=("uint8", "float32"), body=body)


def fits(case: Case) -> bool:
    """Whether the engine finds shapes for the case."""
    try:
        symbol = symbol_of(nnvm.parse(case.symbol(), {}))
        return symbol.infer_shape(**{f"i{each}": shape for each, shape in enumerate(case.shapes)})[0] is not None
    except Exception:  # whatever it is, the shapes do not fit
        return False


def _distinct() -> dict[str, dict[str, str]]:
    """The first name of each operator of the list that the engine has, with its parameters."""
    base = load_mxnet().base
    named: dict[Optional[int], str] = {}
    for op in OPERATORS:
        handle = ctypes.c_void_p()
        if base._LIB.NNGetOpHandle(op.encode(), ctypes.byref(handle)) == 0:
            named.setdefault(handle.value, op)
    return {op: _parameters(op, ctypes.c_void_p(handle)) for handle, op in named.items()}


def _parameters(op: str, handle: ctypes.c_void_p) -> dict[str, str]:
    """The attributes that an operator reads, each with MXNet's description of its type."""
    base = load_mxnet().base
    count = base.mx_uint()
    text = [ctypes.c_char_p() for _ in range(4)]
    lists = [ctypes.POINTER(ctypes.c_char_p)() for _ in range(3)]
    pointers = [ctypes.byref(each) for each in (*text[:2], count, *lists, *text[2:])]
    base.check_call(base._LIB.MXSymbolGetAtomicSymbolInfo(handle, *pointers))
    described = {lists[0][each].decode(): lists[1][each].decode() for each in range(count.value)}
    own = {name: text for name, text in described.items() if "NDArray" not in text and "Symbol" not in text}
    fused = {
        "quantized": "bool",
        "with_bn": "bool",
        "with_act": "bool",
        "with_sum": "bool",
        "with_postsum_act": "bool",
        "min_calib_range": "float",
        "max_calib_range": "float",
        "channel_wise_quantize": "bool",
        "with_eltwise": "bool",
        "enable_float_output": "bool",
        "no_bias": "bool",
        "flatten": "bool",
        "num_hidden": "int",
    }
    return fused if op in FUSED else own
