"""How much of a network runs in INT8, counted by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.diagnosis.coverage import Coverage, Left, planned_coverage
from quantkit.models.load import load_model
from quantkit.models.model import Model

ONE_AXIS = "the engine's INT8 convolution takes 2-D and 3-D kernels only"


@pytest.fixture
def model(engine: None) -> Model:
    """Two convolutions, the second in 2 groups, batch normalizations and a dense layer, on 8x8 pixels."""
    nn: Any = load_mxnet().gluon.nn
    block = nn.HybridSequential(prefix="net_")
    with block.name_scope():
        block.add(nn.Conv2D(8, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
        block.add(nn.Conv2D(8, 1, groups=2, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
        block.add(nn.Flatten(), nn.Dense(5))
    block.initialize()
    return load_model(block, input_shape=(3, 8, 8))


def test_counted_by_hand(model: Model) -> None:
    first, grouped, dense = 64 * 8 * 3 * 9, 64 * 8 * 4, 8 * 64 * 5
    parameters = 8 * 3 * 9 + 8 * 4 + 2 * 4 * 8 + 8 * 64 * 5 + 5
    macs = first + grouped + dense
    computed = planned_coverage(model)
    assert computed == Coverage(parameters, 3, 3, macs, macs, ())
    assert computed.share == 1


def test_what_has_no_kernel_is_left(engine: None) -> None:
    convolution: Any = load_mxnet().gluon.nn.Conv1D(4, 3, in_channels=3, use_bias=False, prefix="conv_")
    convolution.initialize()
    macs = 6 * 4 * 3 * 3
    computed = planned_coverage(load_model(convolution, input_shape=(3, 8)))
    assert computed == Coverage(4 * 3 * 3, 1, 0, macs, 0, (Left(ONE_AXIS, 1, macs),))
    assert computed.share == 0


def test_what_the_card_excludes_stays_in_fp32(model: Model) -> None:
    computed = planned_coverage(replace(model, exclude=("*dense0_fwd",)))
    assert computed.int8_layers == 2
    assert [left.layers for left in computed.left] == [1]
    assert sum(left.macs for left in computed.left) == computed.macs - computed.int8_macs


def test_a_network_without_layers(engine: None) -> None:
    symbol = load_mxnet().sym.Activation(load_mxnet().sym.var("data"), act_type="relu")
    computed = planned_coverage(load_model(symbol, params={}, input_shape=(3, 8, 8)))
    assert (computed.layers, computed.macs, computed.share) == (0, 0, 0.0)


def test_what_is_put_around_a_layer_does_not_count(engine: None) -> None:
    """A dense layer over the last axis of sequences is one between two reshapes; those have no INT8 kernel."""
    dense: Any = load_mxnet().gluon.nn.Dense(5, flatten=False, prefix="dense_")
    dense.initialize()
    computed = planned_coverage(load_model(dense, input_shape=(7, 4)))
    assert (computed.layers, computed.int8_layers, computed.macs) == (1, 1, 7 * 4 * 5)


def test_a_transposed_convolution_counts_as_it_was(engine: None) -> None:
    """As a convolution of subpixels it runs in INT8; of what it computes there, the padding cuts some off."""
    block: Any = load_mxnet().gluon.nn.Conv2DTranspose(5, 4, strides=2, padding=1, in_channels=3)
    block.initialize()
    computed = planned_coverage(load_model(block, input_shape=(3, 8, 8)))
    assert (computed.layers, computed.int8_layers, computed.macs) == (1, 1, 64 * 3 * 5 * 16)
    assert computed.share == 1.0


def test_layers_that_are_applied_twice_count_twice(engine: None) -> None:
    """MXNet gives both the same name."""
    nn: Any = load_mxnet().gluon.nn
    conv = nn.Conv2D(3, 3, padding=1, in_channels=3)
    block = nn.HybridSequential()
    block.add(conv, conv)
    block.initialize()
    computed = planned_coverage(load_model(block, input_shape=(3, 8, 8)))
    assert (computed.layers, computed.int8_layers, computed.macs) == (2, 2, 2 * 64 * 9 * 9)
