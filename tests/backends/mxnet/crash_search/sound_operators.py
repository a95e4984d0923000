"""How networks use the operators, where that does not follow from MXNet's description of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Shape = tuple[int, ...]

MAPS: Shape = (2, 4, 6, 6)
CONVOLUTION = {"kernel": "(3, 3)", "num_filter": "4"}
RANGE = ((1,), (1,))
_ROWS = {"heads": "2"}

_Sound = list[tuple[dict[str, str], Sequence[Shape]]]


def _each(names: Iterable[str], sound: _Sound) -> dict[str, _Sound]:
    return dict.fromkeys(names, sound)


# By operator: attributes and shapes of inputs.
SOUND: dict[str, _Sound] = {
    **_each(
        ("Convolution", "Convolution_v1", "Deconvolution"),
        [(CONVOLUTION, (MAPS,)), ({"kernel": "(3,)", "num_filter": "4"}, ((2, 4, 6),))],
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
    "_contrib_DeformableConvolution": [(CONVOLUTION, (MAPS, (2, 18, 4, 4)))],
    "_contrib_ModulatedDeformableConvolution": [(CONVOLUTION, (MAPS, (2, 18, 4, 4), (2, 9, 4, 4)))],
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
    "_contrib_quantized_conv": [({**CONVOLUTION, "no_bias": "True"}, (MAPS, (4, 4, 3, 3), *RANGE, *RANGE))],
    "_contrib_quantized_fully_connected": [({"num_hidden": "4", "no_bias": "True"}, ((2, 8), (4, 8), *RANGE, *RANGE))],
    "_contrib_quantized_pooling": [
        *(({"kernel": "(2, 2)", "pool_type": way}, (MAPS, *RANGE)) for way in ("max", "avg")),
        ({"kernel": "(1, 2, 2)", "pool_type": "max"}, ((2, 4, 2, 5, 5), *RANGE)),
    ],
    "_contrib_quantized_act": [({"act_type": "relu"}, (MAPS, *RANGE))],
    "_contrib_quantized_flatten": [({}, (MAPS, *RANGE))],
    "_contrib_quantized_concat": [({"num_args": "2", "dim": "1"}, (MAPS, MAPS, *RANGE, *RANGE))],
    **_each(
        ("_contrib_quantized_elemwise_add", "_contrib_quantized_elemwise_mul"), [({}, (MAPS, MAPS, *RANGE, *RANGE))]
    ),
    "_contrib_quantized_batch_norm": [
        ({"min_calib_range": "-1", "max_calib_range": "1"}, (MAPS, (4,), (4,), (4,), (4,), *RANGE))
    ],
    "_contrib_quantized_embedding": [({"input_dim": "5", "output_dim": "4"}, ((3,), (5, 4), *RANGE))],
    **_each(("_contrib_quantize", "_contrib_dequantize", "_contrib_requantize"), [({}, (MAPS, *RANGE))]),
    "_contrib_quantize_v2": [
        ({"min_calib_range": "-1", "max_calib_range": "1", "out_type": way}, (MAPS,))
        for way in ("int8", "uint8", "auto")
    ],
    "_contrib_quantize_asym": [({"min_calib_range": "-1", "max_calib_range": "1"}, ((3, 2, 5),))],
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

# For the attributes that an operator requires, and inputs to try.
REQUIRED = {
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
SHAPES: tuple[Shape, ...] = (MAPS, (4, 4), (2, 4, 4), (4,), (1, 5), (2, 3, 5), (1,), (2, 3, 2, 5, 5))

# Sound networks for inside fused operators.
CONVOLVED = {
    "op": "Convolution",
    "name": "c",
    "attrs": {**CONVOLUTION, "no_bias": "True"},
    "inputs": [[0, 0, 0], [1, 0, 0]],
}
DENSE = {
    "op": "FullyConnected",
    "name": "c",
    "attrs": {"num_hidden": "4", "no_bias": "True"},
    "inputs": [[0, 0, 0], [1, 0, 0]],
}
PAIR = [{"op": "null", "name": name, "inputs": []} for name in ("a", "b")]
