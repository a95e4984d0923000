"""Recurrent layers as Gluon's exports have them, for the tests of ONNX files and engines."""

from __future__ import annotations

from typing import Any

import numpy as np

from quantkit.ir.graph import Tensor
from quantkit.ir.macs import GATES
from tests.networks import DATA, Builder

STEPS, FEATURES, UNITS, VOCABULARY = 5, 3, 4, 11


def flat_parameters(b: Builder, mode: str, layers: int, directions: int) -> np.ndarray:
    widths = [FEATURES, *[directions * UNITS] * (layers - 1)]
    rows = GATES[mode] * UNITS
    return b.random.normal(size=directions * sum(rows * (width + UNITS + 2) for width in widths)) * 0.5


def states_of(b: Builder, mode: str, extent: int) -> list[Tensor]:
    names = ["state", "cell"][: 2 if mode == "lstm" else 1]
    return [b.op("_zeros", name, shape=(extent, 0, UNITS), dtype="float32") for name in names]


def recurrent(
    b: Builder, data: Tensor, mode: str, layers: int = 1, bidirectional: bool = False, **attrs: Any
) -> Tensor:
    """The layers on sequences of shape (steps, batch, features), with Gluon's states of zero."""
    directions = 1 + bidirectional
    flat = b.param("flat", flat_parameters(b, mode, layers, directions))
    states = states_of(b, mode, layers * directions)
    own = {"mode": mode, "state_size": UNITS, "num_layers": layers, "bidirectional": bidirectional, **attrs}
    return b.op("RNN", "layers", data, flat, *states, **own)


def turned(b: Builder, name: str, data: Tensor) -> Tensor:
    return b.op("SwapAxis", name, data, dim1=0, dim2=1)


def language_model(b: Builder) -> Tensor:
    """Tokens, embedded, in a layer with the parameters as Gluon has them, scored at every step."""
    table = b.param("table", b.random.normal(size=(VOCABULARY, FEATURES)))
    data = b.op("Embedding", "embedding", DATA, table, input_dim=VOCABULARY, output_dim=FEATURES)
    rows = 4 * UNITS
    shapes = {"i2h_weight": (rows, FEATURES), "h2h_weight": (rows, UNITS), "i2h_bias": (rows,), "h2h_bias": (rows,)}
    parts = [b.param(name, b.random.normal(size=shape)) for name, shape in shapes.items()]
    vectors = [b.op("Reshape", f"{part}_vector", part, shape=(-1,)) for part in parts]
    flat = b.op("_rnn_param_concat", "flat", *vectors, dim=0, num_args=4)
    own = {"mode": "lstm", "state_size": UNITS, "num_layers": 1}
    node = b.op("RNN", "layers", turned(b, "steps", data), flat, *states_of(b, "lstm", 1), **own)
    weight, bias = b.param("w", b.random.normal(size=(VOCABULARY, UNITS))), b.param("b", b.random.normal(size=11))
    return b.op(
        "FullyConnected", "scores", turned(b, "in_batches", node), weight, bias, num_hidden=VOCABULARY, flatten=False
    )
