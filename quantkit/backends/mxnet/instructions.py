"""The instructions that oneDNN may use: MXNet's INT8 LSTM works without VNNI alone.

With VNNI oneDNN stores an LSTM's INT8 weights in blocks, and cannot bring MXNet's weights (gates, outputs, inputs) into
them: ``could not create a primitive descriptor for a reorder primitive``. Without VNNI it packs them itself. oneDNN
reads ``DNNL_MAX_CPU_ISA`` when a process first uses it, and never again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from typing import Optional

import numpy as np

from quantkit.backends.mxnet.calls import failures
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.errors import EngineError
from quantkit.host.pair_sums import may_overflow
from quantkit.ir.fused_layer import FUSED
from quantkit.ir.graph import Graph, Node
from quantkit.ir.operators import integers
from quantkit.ir.recurrent_layer import RECURRENT

VARIABLE = "DNNL_MAX_CPU_ISA"
WITHOUT_VNNI = "AVX512_CORE"

LIMITS = {
    "AVX512_CORE": "avx512_core",
    "AVX512_MIC_4OPS": "avx2",
    "AVX512_MIC": "avx2",
    "AVX2_VNNI": "avx2_vnni",
    "AVX2": "avx2",
    "AVX": "sse41",
    "SSE41": "sse41",
}
"""By the values of the variable that leave out AVX-512's VNNI, what INT8 kernels use at most; oneDNN minds the case."""

INT8_LSTM = "_contrib_quantized_rnn"
_DENSE_AXES = 2
_LSTMS = frozenset({"RNN", RECURRENT})

INT8_KERNEL_AXES = (2, 3)
"""The numbers of axes that kernels of INT8 convolutions may have."""

_CONVOLUTIONS = frozenset({"Convolution", FUSED["Convolution"], "_sg_mkldnn_conv"})


def prepare_instructions(graph: Graph) -> None:
    """Let oneDNN do without VNNI for networks with LSTM layers, unless others need it or the user says otherwise.

    It has an effect before the process first uses oneDNN. Processes that it starts afterwards are not affected; one
    that another thread starts meanwhile, and forks, do without as well.

    Raises:
        EngineError: the network has INT8 LSTM layers, and the engine cannot run them in this process; or its INT8
            layers need VNNI, which this process does without.
    """
    int8_lstm = any(node.op == INT8_LSTM for node in graph.nodes)
    int8 = any(node.attrs.get("quantized") == "true" for node in graph.nodes)
    if int8_lstm or (may_rule_out_vnni(graph) and not int8):
        _do_without_vnni()
    if int8_lstm and (obstacle := int8_lstm_obstacle()):
        raise EngineError(f"the network has INT8 LSTM layers: {obstacle}")
    check_vnni(node.name for node in graph.nodes if _can_saturate(graph, node))


def may_rule_out_vnni(graph: Graph) -> bool:
    """Whether a network, fused or not, makes its process do without VNNI.

    It does if it has LSTM layers or cells, and no convolutions that may run in INT8, which need VNNI. It does so in
    FP32, too, before anything is known of its LSTM layers: it may be quantized in the same process.
    """
    has_lstm = any(_is_lstm(graph, node) for node in graph.nodes)
    return has_lstm and not any(map(_may_convolve_in_int8, graph.nodes))


def _is_lstm(graph: Graph, node: Node) -> bool:
    """Whether a node is an LSTM layer, or takes the gates of a cell apart, which fusion makes such a layer of."""
    if node.op != "SliceChannel":
        return node.op in _LSTMS and node.attrs.get("mode") == "lstm"
    gates = graph.producer(node.inputs[0])
    if gates is None or gates.op != "elemwise_add" or node.attrs.get("num_outputs") != "4":
        return False
    return all(made is not None and made.op == "FullyConnected" for made in map(graph.producer, gates.inputs))


def int8_lstm_obstacle() -> Optional[str]:
    """Why INT8 LSTM layers cannot run in this process, with the remedy; None if they can, then it is prepared."""
    mxnet = load_mxnet()
    _do_without_vnni()
    if not hasattr(mxnet.symbol.contrib, "quantized_rnn"):
        return f"mxnet {mxnet.__version__} has no INT8 kernel for LSTM layers, 1.9.1 has one"
    chosen = os.environ.get(VARIABLE)
    if not _runs_int8_lstm() and chosen and chosen not in LIMITS:
        return (
            f"{VARIABLE} is {chosen!r}, which admits VNNI, and MXNet's INT8 kernel for LSTM layers works without VNNI "
            f"alone; start the process without it, or with {WITHOUT_VNNI}"
        )
    if not _runs_int8_lstm():
        return (
            f"MXNet computed in this process before, and its INT8 kernel for LSTM layers needs {VARIABLE}="
            f"{WITHOUT_VNNI} from before that; set it in the environment that the process is started with"
        )
    return None


def check_vnni(layers: Iterable[str]) -> None:
    """Make sure that INT8 layers whose sums of two products can exceed 16 bits are not run without VNNI.

    Processes that were started so, and processors that have no VNNI, are taken as they are.

    Args:
        layers: the names of such layers.

    Raises:
        EngineError: there is one, and this process does without VNNI for the sake of LSTM layers.
    """
    first = next(iter(layers), None)
    if first is not None and does_without_vnni():
        raise EngineError(
            f"the INT8 layer {first!r} needs VNNI, and this process does without since it has run a network with LSTM "
            "layers: its sums would saturate, and its results be wrong. Run this network in a process of its own, or "
            "before any network with LSTM layers, which run in FP32 only then"
        )


def does_without_vnni() -> bool:
    """Whether this process runs without the processor's VNNI for the sake of LSTM layers."""
    return _do_without_vnni.cache_info().currsize > 0 and _do_without_vnni() and _has_vnni() and _runs_int8_lstm()


def _may_convolve_in_int8(node: Node) -> bool:
    core = node if node.body is None else next(iter(node.body.nodes), node)
    return node.op in _CONVOLUTIONS and len(integers(core, "kernel")) in INT8_KERNEL_AXES


def _can_saturate(graph: Graph, node: Node) -> bool:
    """Whether sums of two products of an INT8 layer can exceed 16 bits; convolutions round float weights themselves."""
    if node.op == INT8_LSTM or node.attrs.get("quantized") != "true":
        return False
    weight = graph.params.get(node.inputs[1].node)
    if weight is None or weight.dtype != np.int8 or weight.ndim != _DENSE_AXES:
        return True
    return may_overflow(weight)


def _has_vnni() -> bool:
    # NumPy queries the processor itself, so this also works under an emulator.
    return bool(np.core._multiarray_umath.__cpu_features__.get("AVX512_CLX"))  # type: ignore[attr-defined]


@cache
def _do_without_vnni() -> bool:
    """Limit oneDNN at its first use, unless it is limited by the user; whether that was tried."""
    # oneDNN takes an empty value for none.
    given = os.environ.get(VARIABLE)
    if given:
        return False
    os.environ[VARIABLE] = WITHOUT_VNNI
    try:
        # The first use, in which oneDNN reads the variable.
        _runs_int8_lstm()
    finally:
        if given is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = given
    return True


@cache
def _runs_int8_lstm() -> bool:
    nd = load_mxnet().nd
    if not hasattr(nd.contrib, "quantized_rnn"):
        return False
    state = nd.zeros((1, 1, 1))
    inputs = (nd.ones((1, 1, 1), dtype=np.uint8), nd.ones((16,)), state, state, nd.ones((1,)), nd.ones((1,)))
    try:
        nd.contrib.quantized_rnn(*inputs, mode="lstm", num_layers=1, state_size=1).wait_to_read()
    except failures():
        return False
    return True
