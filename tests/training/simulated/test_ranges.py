"""Which tensors share a learnable range, and what becomes of ranges in training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.calibration.ranges import Range
from quantkit.errors import UserError
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.graph import Tensor
from quantkit.ir.names import Names
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.training.simulated.ranges import RangeGroup, initial_logarithms, range_groups, with_ranges
from tests.lowering.networks import quantized
from tests.training.simulated import on_engine

pytestmark = pytest.mark.usefixtures("engine")


def groups_of(network: QuantizedGraph) -> tuple[RangeGroup, ...]:
    shapes = infer_shapes(float_graph(network.graph), {"data": (1, 3, 16, 16)})
    return range_groups(network, shapes, Names(network.graph.names))


def changed(network: QuantizedGraph, value: float) -> Mapping[Tensor, TensorQuantization]:
    """The tensors of the plan whose ranges have all this logarithm."""
    groups = groups_of(network)
    logarithms = {group.parameter: np.array([value], np.float32) for group in groups}
    return with_ranges(network.plan, groups, logarithms).tensors


def test_tensors_whose_ranges_follow_from_each_other_share_one() -> None:
    names = {frozenset(str(tensor) for tensor in group.tensors) for group in groups_of(quantized("branches"))}
    assert names == {
        frozenset({"data"}),
        frozenset({"hidden_clip"}),
        # The maximum is taken before the concatenation, which has its name.
        frozenset({"left", "conv1", "pool_part0", "pool_part1", "pool", "flatten"}),
    }


def test_ranges_begin_as_they_were() -> None:
    network = quantized("branches")
    groups = groups_of(network)
    assert with_ranges(network.plan, groups, initial_logarithms(groups)).tensors == network.plan.tensors


def test_ranges_of_a_group_grow_by_one_factor() -> None:
    network = quantized("branches")
    grown = changed(network, 0.25)
    for tensor, form in network.plan.tensors.items():
        assert grown[tensor].dtype == form.dtype
        assert grown[tensor].range.low == pytest.approx(form.range.low * np.exp(0.25), rel=1e-6)
        assert grown[tensor].range.high == pytest.approx(form.range.high * np.exp(0.25), rel=1e-6)
    parts = [grown[Tensor(name)].range for name in ("pool_part0", "pool_part1")]
    assert grown[Tensor("pool")].range == Range(min(part.low for part in parts), max(part.high for part in parts))


def test_kernels_that_clip_by_saturation_go_on_clipping_where_they_did() -> None:
    network = quantized("inverted residual")
    before, grown, shrunk = network.plan.tensors, changed(network, 3.0), changed(network, -3.0)
    clipped, free = Tensor("stem_clip"), Tensor("data")
    assert grown[clipped].range.largest == pytest.approx(max(6.0, before[clipped].range.largest))
    assert shrunk[clipped].range.largest == pytest.approx(before[clipped].range.largest * np.exp(-3))
    assert grown[free].range.largest == pytest.approx(before[free].range.largest * np.exp(3))


def test_what_exceeds_the_clip_can_shrink() -> None:
    (group,) = (group for group in groups_of(quantized("inverted residual")) if Tensor("stem_clip") in group.tensors)
    draft = on_engine.draft(**{group.parameter: np.array([2.0], np.float32)})
    draft.nodes += group.nodes
    _, gradients = on_engine.run_draft(draft, [group.factor], np.ones(1))
    assert gradients[group.parameter][0] > 0


@pytest.mark.parametrize("value", [1e3, -1e3])
def test_lost_ranges_are_told(value: float) -> None:
    with pytest.raises(UserError, match="train with a smaller learning rate"):
        changed(quantized("v1"), value)


def test_a_plan_without_integers_has_no_ranges() -> None:
    network = quantized("v1", "none", "*")
    assert groups_of(network) == ()
    assert with_ranges(network.plan, (), {}) is network.plan
