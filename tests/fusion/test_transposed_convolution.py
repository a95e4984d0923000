"""Transposed convolutions as convolutions of subpixels: where they become such, and that they compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.fusion.fuse import Fused, fuse
from quantkit.fusion.rules.activation import ACTIVATION
from quantkit.fusion.rules.transposed_convolution import (
    ACTIVATION_OF_SUBPIXELS,
    FOLD_INTO_TRANSPOSED,
    TRANSPOSED_CONVOLUTION,
)
from quantkit.ir.graph import Graph, Tensor
from tests.networks import DATA, Builder, images

pytestmark = pytest.mark.usefixtures("engine")

RULES = (FOLD_INTO_TRANSPOSED, TRANSPOSED_CONVOLUTION, ACTIVATION_OF_SUBPIXELS, ACTIVATION)


def transposed(b: Builder, bias: bool = False, groups: int = 1, **attrs: Any) -> Tensor:
    """From 6 channels to 4; its attributes are those of a stride of 2 where none are given."""
    kernel = attrs.get("kernel", (4, 4))
    weight = b.param("up_weight", b.random.normal(size=(6, 4 // groups, *kernel)))
    biases = [b.param("up_bias", b.random.normal(size=4))] if bias else []
    attrs = {"kernel": kernel, "stride": (2, 2), "num_filter": 4, "num_group": groups, "no_bias": not bias, **attrs}
    return b.op("Deconvolution", "up", b.conv("conv", DATA, 3, 6), weight, *biases, **attrs)


def fused(graph: Graph) -> Fused:
    """Apply the rules and hold the result against the original, at the size that it is for and at another."""
    result = fuse(graph, (3, 16, 16), RULES[:-1])
    for size in (16, 10):
        data = images(size=size)
        for a, b in zip(run(graph, {"data": data}), run(result.graph, {"data": data}), strict=True):
            np.testing.assert_allclose(b, a, atol=1e-5 * np.abs(a).max())
    return result


def ops(result: Fused) -> list[str]:
    return [node.op for node in result.graph.nodes]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("attrs", "cut"),
    [
        ({"kernel": (2, 2)}, False),
        ({"kernel": (4, 4)}, False),
        ({"kernel": (4, 4), "pad": (1, 1)}, True),
        ({"kernel": (3, 3), "pad": (1, 1), "adj": (1, 1)}, True),
        ({"kernel": (3, 3)}, True),
        ({"kernel": (1, 1)}, True),
        ({"kernel": (4, 2), "pad": (1, 0)}, True),
        ({"kernel": (5, 3), "stride": (3, 3), "pad": (2, 1)}, True),
    ],
)
def test_it_computes_the_same(attrs: dict[str, Any], cut: bool, bias: bool) -> None:
    b = Builder()
    result = fused(b.graph(transposed(b, bias, **attrs)))
    assert ops(result) == ["Convolution", "Convolution", "depth_to_space", *(["slice"] if cut else [])]
    assert result.graph.nodes[-1].name == "up"


@pytest.mark.parametrize("attrs", [{"kernel": (2, 2)}, {"kernel": (4, 4), "pad": (1, 1)}])
def test_normalization_and_activation_become_part_of_it(attrs: dict[str, Any]) -> None:
    """As in SimplePose and CenterNet."""
    b = Builder()
    graph = b.graph(b.relu("relu", b.batch_norm("bn", transposed(b, bias=True, **attrs), 4)))
    assert ops(fused(graph))[1:4] == ["Convolution", "Activation", "depth_to_space"]
    last = fuse(graph, (3, 16, 16), RULES).graph
    assert [node.op for node in last.nodes[:2]] == ["Convolution", "fused_convolution"]
    assert last.nodes[1].origin == ("up", "bn", "relu")
    assert last.nodes[-1].name == "relu"


def test_normalization_becomes_part_of_groups() -> None:
    b = Builder()
    result = fused(b.graph(b.batch_norm("bn", transposed(b, groups=2), 4)))
    assert ops(result) == ["Convolution", "Deconvolution"]


def test_an_activation_of_a_map_with_other_readers_stays() -> None:
    b = Builder()
    up = transposed(b)
    assert ops(fused(b.graph(b.relu("relu", up), up)))[-2:] == ["depth_to_space", "Activation"]


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({"groups": 2}, "groups"),
        ({"stride": (1, 1)}, "does not enlarge"),
        ({"stride": (2, 3)}, "does not enlarge"),
        ({"dilate": (2, 2)}, "dilated"),
        ({"kernel": (1, 1), "stride": (3, 3)}, "would be 0"),
        ({"kernel": (2, 2), "stride": (200, 200)}, "would be 0"),
        ({"target_shape": (32, 32)}, "its padding follows"),
        ({"kernel": (2, 2), "adj": (1, 1)}, "more than its weights reach"),
    ],
)
def test_what_stays(attrs: dict[str, Any], reason: str) -> None:
    b = Builder()
    result = fuse(b.graph(transposed(b, **attrs)), (3, 16, 16), RULES)
    assert "Deconvolution" in ops(result)
    assert reason in result.rejected[0].reason


def test_computed_weights_stay() -> None:
    b = Builder()
    weight = b.op("_mul_scalar", "half", b.param("w", b.random.normal(size=(3, 4, 2, 2))), scalar=0.5)
    up = b.op("Deconvolution", "up", DATA, weight, kernel=(2, 2), stride=(2, 2), num_filter=4)
    assert "Deconvolution" in ops(fused(b.graph(up)))
