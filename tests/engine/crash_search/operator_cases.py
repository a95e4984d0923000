"""Networks of one operator each, with values that no network has: what a stranger's symbol file could hold."""

from __future__ import annotations

import ctypes
import itertools
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from quantkit.engine.compat import load_mxnet
from quantkit.engine.execute import symbol_of
from quantkit.graph import nnvm
from quantkit.graph.allowed_operators import FUSED, OPERATORS
from quantkit.graph.attribute_bounds import output_count

Shape = tuple[int, ...]


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


MAPS: Shape = (2, 4, 6, 6)
_CONVOLUTION = {"kernel": "(3, 3)", "num_filter": "4"}
_ROWS = {"heads": "2"}
_RANGE = ((1,), (1,))

_Sound = list[tuple[dict[str, str], Sequence[Shape]]]


def _each(names: Iterable[str], sound: _Sound) -> dict[str, _Sound]:
    return dict.fromkeys(names, sound)


# Where sound shapes or attributes do not follow from the operator's description: attributes and shapes of inputs.
_SOUND: dict[str, _Sound] = {
    **_each(
        ("Convolution", "Convolution_v1", "Deconvolution"),
        [(_CONVOLUTION, (MAPS,)), ({"kernel": "(3,)", "num_filter": "4"}, ((2, 4, 6),))],
    ),
    **_each(("Pooling", "Pooling_v1"), [({"kernel": "(2, 2)", "pool_type": way}, (MAPS,)) for way in ("max", "avg")]),
    **_each(
        ("Pad", "pad"),
        [({"mode": way, "pad_width": "(0, 0, 0, 0, 1, 1, 1, 1)"}, (MAPS,)) for way in ("constant", "edge", "reflect")],
    ),
    "RNN": [
        (
            {"state_size": "4", "num_layers": "2", "mode": mode, "bidirectional": way, "state_outputs": "True"},
            ((3, 2, 5),),
        )
        for mode in ("lstm", "gru", "rnn_relu", "rnn_tanh")
        for way in ("True", "False")
    ],
    "GridGenerator": [
        ({"transform_type": "affine", "target_shape": "(4, 4)"}, ((2, 6),)),
        ({"transform_type": "warp"}, ((2, 2, 4, 4),)),
    ],
    "SpatialTransformer": [
        ({"transform_type": "affine", "sampler_type": "bilinear", "target_shape": "(4, 4)"}, (MAPS, (2, 6)))
    ],
    "BilinearSampler": [({}, (MAPS, (2, 2, 4, 4)))],
    "_contrib_DeformableConvolution": [(_CONVOLUTION, (MAPS, (2, 18, 4, 4)))],
    "_contrib_ModulatedDeformableConvolution": [(_CONVOLUTION, (MAPS, (2, 18, 4, 4), (2, 9, 4, 4)))],
    "_contrib_MultiBoxDetection": [({}, ((2, 3, 8), (2, 32), (1, 8, 4)))],
    "_contrib_MultiBoxPrior": [({"sizes": "(0.1, 0.2)", "ratios": "(1, 2)"}, (MAPS,))],
    "ROIPooling": [({"spatial_scale": "0.5", "pooled_size": "(2, 2)"}, (MAPS, (3, 5)))],
    "_contrib_box_decode": [({"format": way}, ((2, 5, 4), (1, 5, 4))) for way in ("corner", "center")],
    "_contrib_box_iou": [({"format": "corner"}, ((5, 4), (3, 4)))],
    **_each(("_contrib_box_nms", "_contrib_box_non_maximum_suppression"), [({"id_index": "0"}, ((2, 5, 6),))]),
    "_contrib_interleaved_matmul_selfatt_qk": [(_ROWS, ((4, 2, 24),))],
    "_contrib_interleaved_matmul_selfatt_valatt": [(_ROWS, ((4, 2, 24), (4, 4, 4)))],
    "_contrib_interleaved_matmul_encdec_qk": [(_ROWS, ((4, 2, 8), (4, 2, 16)))],
    "_contrib_interleaved_matmul_encdec_valatt": [(_ROWS, ((4, 2, 16), (4, 4, 4)))],
    "_image_to_tensor": [({}, ((6, 6, 3),))],
    "_image_normalize": [({"mean": "(0.5, 0.4, 0.3)", "std": "(0.5, 0.5, 0.5)"}, ((3, 6, 6),))],
    "_split_v2": [
        ({"indices": "(0, 2)", "axis": "0"}, ((4, 4),)),
        ({"indices": "()", "sections": "2", "axis": "0"}, ((4, 4),)),
    ],
    **_each(
        ("Reshape", "reshape"), [({"shape": text}, (MAPS,)) for text in ("(-1, 4)", "(0, -1)", "(0, -4, 2, 2, -2)")]
    ),
    "LeakyReLU": [({"act_type": way}, (MAPS,)) for way in ("leaky", "elu", "selu", "gelu")]
    + [({"act_type": "prelu"}, (MAPS, (4,)))],
    "UpSampling": [
        ({"scale": "2", "sample_type": "nearest", "num_args": "1"}, (MAPS,)),
        ({"scale": "2", "sample_type": "bilinear", "num_args": "2", "num_filter": "4"}, (MAPS,)),
    ],
    "Crop": [({"num_args": "2"}, (MAPS, (2, 4, 3, 3))), ({"num_args": "1", "h_w": "(2, 2)"}, (MAPS,))],
    **_each(
        ("dot", "batch_dot", "_linalg_gemm2", "linalg_gemm2"), [({}, ((2, 4, 3), (2, 3, 4))), ({}, ((4, 3), (3, 4)))]
    ),
    **_each(("_linalg_gemm", "linalg_gemm"), [({}, ((2, 4, 3), (2, 3, 4), (2, 4, 4)))]),
    **_each(("Embedding", "_contrib_SparseEmbedding"), [({"input_dim": "5", "output_dim": "4"}, ((3,), (5, 4)))]),
    "take": [({"mode": way, "axis": "1"}, ((4, 4), (3,))) for way in ("raise", "wrap", "clip")],
    "gather_nd": [({}, ((4, 4), (2, 3)))],
    "pick": [({"axis": "1"}, ((4, 4), (4,)))],
    "batch_take": [({}, ((4, 4), (4,)))],
    "_contrib_quantized_conv": [({**_CONVOLUTION, "no_bias": "True"}, (MAPS, (4, 4, 3, 3), *_RANGE, *_RANGE))],
    "_contrib_quantized_fully_connected": [
        ({"num_hidden": "4", "no_bias": "True"}, ((2, 8), (4, 8), *_RANGE, *_RANGE))
    ],
    "_contrib_quantized_pooling": [({"kernel": "(2, 2)", "pool_type": way}, (MAPS, *_RANGE)) for way in ("max", "avg")],
    "_contrib_quantized_act": [({"act_type": "relu"}, (MAPS, *_RANGE))],
    "_contrib_quantized_flatten": [({}, (MAPS, *_RANGE))],
    "_contrib_quantized_concat": [({"num_args": "2", "dim": "1"}, (MAPS, MAPS, *_RANGE, *_RANGE))],
    **_each(
        ("_contrib_quantized_elemwise_add", "_contrib_quantized_elemwise_mul"), [({}, (MAPS, MAPS, *_RANGE, *_RANGE))]
    ),
    "_contrib_quantized_batch_norm": [
        ({"min_calib_range": "-1", "max_calib_range": "1"}, (MAPS, (4,), (4,), (4,), (4,), *_RANGE))
    ],
    "_contrib_quantized_embedding": [({"input_dim": "5", "output_dim": "4"}, ((3,), (5, 4), *_RANGE))],
    **_each(("_contrib_quantize", "_contrib_dequantize", "_contrib_requantize"), [({}, (MAPS, *_RANGE))]),
    "_contrib_quantize_v2": [
        ({"min_calib_range": "-1", "max_calib_range": "1", "out_type": way}, (MAPS,))
        for way in ("int8", "uint8", "auto")
    ],
}

_SOUND |= {
    "Activation": [({"act_type": "relu"}, (MAPS,))],
    "slice_axis": [({"axis": "0", "begin": "0", "end": "1"}, ((4, 4),))],
    "broadcast_to": [({"shape": "(2, 4)"}, ((1, 4),))],
    "moments": [({"axes": "(0,)"}, ((4, 4),))],
    **_each(("add_n", "ElementWiseSum"), [({"num_args": "2"}, ((4, 4), (4, 4)))]),
    **_each(
        ("_zeros", "_ones", "_zeros_without_dtype", "_random_uniform", "_random_normal"), [({"shape": "(2, 3)"}, ())]
    ),
    "_full": [({"shape": "(2, 3)", "value": "1"}, ())],
    "_arange": [({"start": "0", "stop": "5"}, ())],
    "_linspace": [({"start": "0", "stop": "5", "num": "4", "step": "1"}, ())],
}

_REQUIRED = {
    "shape": "(2, 4)",
    "axis": "0",
    "a_min": "0",
    "a_max": "6",
    "dtype": "float32",
    "num_outputs": "2",
    "scalar": "2",
    "output_size": "(2, 2)",
    "begin": "(0,)",
    "end": "(2,)",
    "depth": "5",
    "reps": "(2, 2)",
    "repeats": "2",
    "N": "3",
    "block_size": "2",
    "scale": "2",
    "start": "0",
    "nsize": "3",
    "num_hidden": "4",
    "key": "x",
    "num": "4",
    "stop": "5",
}
_SHAPES: tuple[Shape, ...] = (MAPS, (4, 4), (2, 4, 4), (4,), (1, 5), (2, 3, 5), (1,), (2, 3, 2, 5, 5))

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
_ODD_SHAPES: tuple[Shape, ...] = ((0,), (1,), (1,) * 32, (0, 3, 0, 3), (1, 1, 1, 1), (5, 4, 3, 2, 1), (3, 1), (1, 3, 2))
_TYPES = ("uint8", "int8", "int32", "int64", "float16", "float64")
FILLS = ("ramp", "huge", "negative", "nan")

# Sound networks for inside fused operators.
_CONVOLVED = {
    "op": "Convolution",
    "name": "c",
    "attrs": {**_CONVOLUTION, "no_bias": "True"},
    "inputs": [[0, 0, 0], [1, 0, 0]],
}
_DENSE = {
    "op": "FullyConnected",
    "name": "c",
    "attrs": {"num_hidden": "4", "no_bias": "True"},
    "inputs": [[0, 0, 0], [1, 0, 0]],
}
_PAIR = [{"op": "null", "name": name, "inputs": []} for name in ("a", "b")]


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
    for type_ in _TYPES:
        for types in ((type_,), ("float32", type_), (type_, "float32")):
            yield replace(sound, types=types)
            yield replace(sound, types=types, fill="negative")
    for name, description in parameters.items():
        for value in _values(description):
            yield replace(sound, attrs={**sound.attrs, name: value})
    for position in range(sound.inputs):
        for shape in _ODD_SHAPES:
            shapes = (*sound.shapes, *_RANGE * sound.inputs)[: max(position + 1, len(sound.shapes))]
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


def _values(description: str) -> list[str]:
    if description.startswith("{"):
        return [*re.findall(r"'([^']*)'", description.split("}")[0]), "nonsense"]
    for kind, values in (
        ("bool", ["0", "1", "None"]),
        ("Shape", _TUPLES),
        ("tuple", _TUPLES),
        ("float", _FLOATS),
        ("double", _FLOATS),
        ("string", _TEXTS),
    ):
        if kind in description:
            return values
    return _NUMBERS


def _sound_cases(op: str, parameters: dict[str, str]) -> Iterator[Case]:
    """The operator as networks use it, in up to three ways."""
    fewest, most, _ = OPERATORS[op]
    if op in FUSED:
        yield from _fused_cases(op)
    elif op in _SOUND:
        for attrs, shapes in _SOUND[op]:
            inputs = max(int(attrs.get("num_args", 0)), min(max(fewest, len(shapes)), most))
            if op in {"RNN"} and attrs["mode"] == "lstm":
                inputs = 4
            if attrs.get("num_args") and op.endswith("quantized_concat"):
                inputs, attrs = 6, {**attrs, "num_args": "2"}
            yield Case(op, attrs, tuple(shapes), inputs)
    else:
        attrs = {name: _REQUIRED.get(name, "1") for name, text in parameters.items() if "required" in text}
        for inputs in sorted({fewest, min(most, 3)} - ({0} if most else set())):
            if "num_args" in attrs:
                attrs["num_args"] = str(inputs)
            known = itertools.chain(
                *(itertools.product(_SHAPES, repeat=count) for count in range(1, min(inputs, 2) + 1))
            )
            found = (Case(op, dict(attrs), shapes, inputs) for shapes in (known if inputs else [()]))
            yield from itertools.islice((case for case in found if fits(case)), 2)


def _fused_cases(op: str) -> Iterator[Case]:
    inside = _CONVOLVED if op == "_sg_mkldnn_conv" else _DENSE
    shapes = (MAPS, (4, 4, 3, 3)) if op == "_sg_mkldnn_conv" else ((2, 8), (4, 8))
    body = {"nodes": [*_PAIR, inside], "heads": [[2, 0, 0]]}
    calibrated = {"quantized": "true", "min_calib_range": "-1", "max_calib_range": "1"}
    yield Case(op, {}, shapes, 2, body=body)
    if op == "_sg_mkldnn_conv":
        summed = {"op": "elemwise_add", "name": "s", "attrs": {}, "inputs": [[2, 0, 0], [3, 0, 0]]}
        nodes = [*_PAIR, _CONVOLVED, {"op": "null", "name": "d", "inputs": []}, summed]
        both, with_sum = {"nodes": nodes, "heads": [[4, 0, 0]]}, {"with_sum": "true"}
        yield Case(op, with_sum, (*shapes, (2, 4, 4, 4)), 3, body=both)
        yield Case(
            op,
            {**calibrated, **with_sum},
            (*shapes, (2, 4, 4, 4), *_RANGE, *_RANGE),
            7,
            ("uint8", "float32", "int8", "float32"),
            body=both,
        )
    yield Case(op, calibrated, (*shapes, *_RANGE), 4, types=("uint8", "float32"), body=body)


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
