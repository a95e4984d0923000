"""Presets, and how many images they look at."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from quantkit.errors import UserError
from quantkit.fusion.fuse import Fused
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.quantization.ptq_config import DEFAULT_PRESET, NO_ALGORITHMS, PRESETS, PTQConfig, preset

TECHNIQUES = [field.name for field in fields(PTQConfig) if field.name not in ("mirror", "num_samples")]


EMPTY = Graph((), ("data",), (Tensor("data"),), {})


def fused(pixels: tuple[int, int], *largest: int) -> Fused:
    """A network with an input of so many pixels, whose operators put out so many values."""
    nodes = tuple(Node(f"node{index}", "tanh", (Tensor("data"),)) for index in range(len(largest)))
    graph = Graph(nodes, ("data",), (Tensor("node0"),), {"huge": np.zeros(1)})
    shapes = {Tensor("data"): (1, 3, *pixels), Tensor("huge"): (10**12,)}
    return Fused(graph, graph, {**shapes, **{node.output: (1, 2, n // 2) for node, n in zip(nodes, largest)}}, (), ())


def reading(*shape: int) -> Fused:
    """A network with an input of this shape."""
    network = fused((1, 1), 100)
    return replace(network, shapes={**network.shapes, Tensor("data"): (1, *shape)})


@pytest.mark.parametrize(
    ("images", "network", "samples"),
    [
        (32, fused((224, 224), 100), 32),
        (32, fused((448, 448), 100), 8),
        # As many as hold the same number of pixels, rounded up.
        (1, fused((224, 223), 100), 2),
        (3, fused((112, 224), 10, 20), 6),
        (3, reading(1, 112, 224), 6),
        # Sequences, vectors and token ids by their values: 150,528 are an image.
        (2, reading(20, 8), 1882),
        (1, reading(1000), 151),
        (32, reading(35, 50176), 3),
        # At most 4 GiB in ten copies of the largest tensor, 4 bytes a value.
        (32, fused((224, 224), 2, 4 * 1024**3 // (10 * 4 * 5), 2), 5),
        (32, fused((224, 224), 10**11), 1),
        (0, fused((224, 224), 100), 1),
        # All that the network had was an identity, which is left out.
        (3, Fused(EMPTY, EMPTY, {Tensor("data"): (1, 3, 112, 224)}, (), ()), 6),
    ],
)
def test_how_many_samples_are_looked_at(images: int, network: Fused, samples: int) -> None:
    assert PTQConfig(num_samples=images).samples(network) == samples


def test_what_each_technique_needs() -> None:
    assert TECHNIQUES == ["analytic_bias", "channel_shift", "equalize", "observers", "refit", "rounding", "bias"]
    for name in TECHNIQUES:
        algorithms = PTQConfig(**{name: True})
        assert algorithms.works
        assert algorithms.needs_images == (name != "analytic_bias")
        assert algorithms.simulates == (name in ("refit", "rounding", "bias"))
        if name != "analytic_bias":
            with pytest.raises(UserError) as caught:
                PTQConfig(**{name: True, "analytic_bias": True})
            assert str(caught.value) == (
                "analytic_bias works without images, so it cannot be joined to techniques that need them"
            )
    assert not PTQConfig(mirror=True).works
    assert not NO_ALGORITHMS.works


def test_presets_are_found_by_name() -> None:
    assert preset(DEFAULT_PRESET) == PRESETS["balanced"]
    assert [preset(name).num_samples for name in ("none", "fast", "balanced", "best")] == [0, 16, 32, 128]
    assert preset("best") == replace(preset("balanced"), num_samples=128)
    with pytest.raises(UserError) as caught:
        preset("fastest")
    assert str(caught.value) == "unknown preset 'fastest'; choose one of none, fast, balanced, best"
