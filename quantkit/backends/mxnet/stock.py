"""Stock MXNet's own INT8 quantization of a network, for comparison with quantkit's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from quantkit.backends.mxnet.calls import engine_errors
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.outputs import values_of
from quantkit.backends.mxnet.shapes import check_runs
from quantkit.backends.mxnet.symbols import auxiliary_params, symbol_of
from quantkit.formats.mxnet import nnvm
from quantkit.ir.graph import Graph

_WHAT = "quantize the network by itself"

Arrays = Mapping[str, Any]
Mode = Literal["naive", "entropy"]
"""Of calibration: minimum and maximum, or the least divergence (``entropy``)."""


def stock_int8_graph(graph: Graph, calibration: np.ndarray, mode: Mode, in_float: Sequence[str] = ()) -> Graph:
    """Quantize with ``mx.contrib.quantization.quantize_model_mkldnn``.

    Args:
        graph: the FP32 network, unfused: stock MXNet fuses it first, as its documentation shows.
        calibration: samples, float32.
        mode: how ranges are found.
        in_float: operators that stay FP32.

    Raises:
        EngineError: the engine does not accept the network, or fails.
    """
    with engine_errors(_WHAT):
        symbol, arguments, states = _quantized(graph, calibration, mode, len(calibration), in_float)
        params = {name: value.asnumpy() for name, value in {**arguments, **states}.items()}
        return nnvm.parse(symbol.tojson(), params)


def stock_int8_outputs(
    graph: Graph, calibration: np.ndarray, mode: Mode, batches: Iterable[np.ndarray], batch_size: int
) -> Iterator[np.ndarray]:
    """Quantize as ``stock_int8_graph`` does, and run the result as MXNet does by default, with its own fusion on.

    Args:
        graph: the FP32 network.
        calibration: samples, float32; their number is a multiple of ``batch_size``.
        mode: how ranges are found.
        batches: input, each of ``batch_size`` samples.
        batch_size: of calibration and inference.

    Raises:
        EngineError: the engine does not accept the network, or fails.
    """
    mxnet = load_mxnet()
    with engine_errors(_WHAT):
        symbol, arguments, states = _quantized(graph, calibration, mode, batch_size)
        module = mxnet.mod.Module(symbol, data_names=graph.inputs, label_names=None, context=mxnet.cpu())
        module.bind(data_shapes=[(graph.inputs[0], (batch_size, *calibration.shape[1:]))], for_training=False)
        module.set_params(arguments, states)
        for batch in batches:
            module.forward(mxnet.io.DataBatch([mxnet.nd.array(batch)]), is_train=False)
            yield values_of(module.get_outputs()[:1])[0]


def _quantized(
    graph: Graph, calibration: np.ndarray, mode: Mode, batch_size: int, in_float: Sequence[str] = ()
) -> tuple[Any, Arrays, Arrays]:
    """The symbol, its arguments and its auxiliary states."""
    check_runs(graph, dict.fromkeys(graph.inputs, (batch_size, *calibration.shape[1:])))
    mxnet = load_mxnet()
    from mxnet.contrib import quantization

    auxiliary = auxiliary_params(graph)
    arrays = {name: mxnet.nd.array(value, dtype=value.dtype) for name, value in graph.params.items()}
    (data_name,) = graph.inputs
    with _scalar_thresholds(quantization):
        symbol, arguments, states = quantization.quantize_model_mkldnn(
            symbol_of(graph).get_backend_symbol("MKLDNN"),
            {name: value for name, value in arrays.items() if name not in auxiliary},
            {name: arrays[name] for name in auxiliary},
            data_names=(data_name,),
            ctx=mxnet.cpu(),
            excluded_op_names=list(in_float),
            calib_mode=mode,
            calib_data=mxnet.io.NDArrayIter(data={data_name: calibration}, batch_size=batch_size),
            num_calib_examples=len(calibration),
            quantized_dtype="auto",
        )
    return symbol, arguments, states


@contextmanager
def _scalar_thresholds(quantization: Any) -> Iterator[None]:
    """Make its entropy search return numbers: with NumPy 1.25 and later it returns arrays that it cannot format."""
    search = quantization._get_optimal_threshold

    def with_scalars(*args: Any, **options: Any) -> tuple[float, ...]:
        return tuple(float(np.asarray(value).reshape(-1)[0]) for value in search(*args, **options))

    quantization._get_optimal_threshold = with_scalars
    try:
        yield
    finally:
        quantization._get_optimal_threshold = search
