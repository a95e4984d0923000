"""Random weights: repeatable, and of a kind that real networks' depth does not amplify."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.models.load import load_model
from quantkit.models.random_weights import random_weights
from tests.networks import DATA, Builder


def chain(groups: int = 1) -> tuple[Graph, dict[str, tuple[int, ...]]]:
    """Convolution, batch normalisation and ReLU, twice."""
    nodes = []
    shapes: dict[str, tuple[int, ...]] = {}
    before = Tensor("data")
    for number, channels in enumerate((16, 32)):
        shapes[f"w{number}"] = (channels, 16 // groups if number else 3, 3, 3)
        norm = {f"{name}{number}": (channels,) for name in ("gamma", "beta", "running_mean", "running_var")}
        shapes.update(norm)
        attrs = {"kernel": "(3, 3)", "num_filter": str(channels), "pad": "(1, 1)", "no_bias": "True"}
        attrs["num_group"] = str(groups if number else 1)
        nodes += [
            Node(f"conv{number}", "Convolution", (before, Tensor(f"w{number}")), attrs),
            Node(f"bn{number}", "BatchNorm", (Tensor(f"conv{number}"), *map(Tensor, norm)), {"fix_gamma": "False"}),
            Node(f"relu{number}", "Activation", (Tensor(f"bn{number}"),), {"act_type": "relu"}),
        ]
        before = Tensor(f"relu{number}")
    # BatchNorm reads gamma, beta, mean and variance in this order.
    return Graph(tuple(nodes), ("data", *shapes), (before,)), shapes


def test_repeatable_and_seeded() -> None:
    graph, shapes = chain()
    first, again, other = random_weights(graph, shapes), random_weights(graph, shapes), random_weights(graph, shapes, 1)
    assert all(np.array_equal(first[name], again[name]) for name in shapes)
    assert not np.array_equal(first["w0"], other["w0"])
    assert all(value.dtype == np.float32 and value.shape == shapes[name] for name, value in first.items())


@pytest.mark.parametrize("groups", [1, 4])
def test_batch_normalisation_gets_its_inputs_moments(engine: None, groups: int) -> None:
    graph, shapes = chain(groups)
    params = random_weights(graph, shapes)
    graph = Graph(graph.nodes, ("data",), (Tensor("conv0"), Tensor("conv1")), params)
    data = np.random.default_rng(0).standard_normal((8, 3, 32, 32)).astype(np.float32)
    first, second = (output[:, :, 2:-2, 2:-2] for output in run(graph, {"data": data}))
    np.testing.assert_allclose(first.var(axis=(0, 2, 3)), params["running_var0"], rtol=0.1)
    np.testing.assert_allclose(first.mean(axis=(0, 2, 3)), params["running_mean0"], atol=0.05)
    # Deeper channels are correlated, which the expectation leaves out: right on average.
    assert 0.8 < np.mean(second.var(axis=(0, 2, 3)) / params["running_var1"]) < 1.2
    np.testing.assert_allclose(second.mean(axis=(0, 2, 3)), params["running_mean1"], atol=0.2)


def ones_and_a_mask(b: Builder, mask: Tensor) -> Tensor:
    share = b.op("Activation", "share", mask, act_type="sigmoid")
    return b.op("elemwise_add", "more", b.op("ones_like", "one", share), share)


def one_and_a_mask(b: Builder, mask: Tensor) -> Tensor:
    return b.op("_plus_scalar", "more", b.op("sigmoid", "share", mask), scalar=1.0)


def one_and_a_scaled_mask(b: Builder, mask: Tensor) -> Tensor:
    thrice = b.op("_mul_scalar", "thrice", b.op("sigmoid", "share", mask), scalar=3.0)
    return b.op("_plus_scalar", "more", b.op("_div_scalar", "less", thrice, scalar=6.0), scalar=1.0)


@pytest.mark.parametrize("factor", [ones_and_a_mask, one_and_a_mask, one_and_a_scaled_mask])
@pytest.mark.parametrize("product", ["elemwise_mul", "broadcast_mul"])
def test_attention_has_the_moments_of_a_product(
    engine: None, factor: Callable[[Builder, Tensor], Tensor], product: str
) -> None:
    """The trunk times a factor that a mask decides, as in residual attention networks."""
    b = Builder()
    trunk, mask = b.relu("trunk", b.conv("layer", DATA, 3, 16)), b.conv("mask", DATA, 3, 16)
    attended = b.op(product, "attended", factor(b, mask), trunk)
    norm = b.op("BatchNorm", "norm", attended, *(b.param(f"norm{n}", np.ones(16, np.float32)) for n in range(4)))
    graph = b.graph(norm)
    params = random_weights(graph, {name: array.shape for name, array in graph.params.items()})
    data = np.random.default_rng(0).standard_normal((8, 3, 32, 32)).astype(np.float32)
    (computed,) = run(replace(graph, outputs=(attended,), params=params).pruned(), {"data": data})
    inner = computed[:, :, 2:-2, 2:-2]
    np.testing.assert_allclose(inner.mean(axis=(0, 2, 3)), params["norm2"], rtol=0.1)
    # A channel's mask and trunk are correlated, which the expectation leaves out: right on average.
    assert 0.9 < np.mean(inner.var(axis=(0, 2, 3)) / params["norm3"]) < 1.1


@pytest.mark.parametrize(
    "name", ["resnet152_v1", "cifar_resnet110_v2", "mobilenetv2_1.0", "squeezenet1.1", "densenet121"]
)
def test_activations_neither_vanish_nor_explode(engine: None, name: str) -> None:
    model = load_model(name, weights="random")
    channels, *_ = model.input_shape
    size = 64 if model.input_shape[1] > 64 and name != "densenet121" else model.input_shape[1]
    data = np.random.default_rng(0).standard_normal((1, channels, size, size)).astype(np.float32)
    convolutions = [node.output for node in model.graph.nodes if node.op == "Convolution"]
    deviations = [output.std() for output in run(model.graph.with_outputs(convolutions), {"data": data})]
    assert min(deviations) > 0.05
    assert max(deviations) < 20


def test_same_bytes_in_another_process(engine: None) -> None:
    code = (
        "import hashlib; from quantkit.models.load import load_model\n"
        "p = load_model('cifar_resnet20_v2', weights='random').graph.params\n"
        "print(hashlib.sha256(b''.join(n.encode() + p[n].tobytes() for n in sorted(p))).hexdigest())"
    )
    load_model("mobilenet0.25", weights="random")
    params = load_model("cifar_resnet20_v2", weights="random").graph.params
    here = hashlib.sha256(b"".join(name.encode() + params[name].tobytes() for name in sorted(params))).hexdigest()
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert here == there


def test_parameters_that_are_computed_over_and_over_are_found_in_time() -> None:
    """A recurrent layer's vector, added to itself forty times, has 2^40 ways to its parameter."""
    b = Builder()
    vector = Tensor("vector")
    for number in range(40):
        vector = b.op("elemwise_add", f"add{number}", vector, vector)
    state = b.op("_zeros", "state", shape=(1, 0, 4))
    layer = b.op("RNN", "rnn", DATA, vector, state, mode="rnn_tanh", num_layers=1, state_size=4)
    graph = Graph(tuple(b.nodes), ("data", "vector"), (layer,), {})
    (values,) = random_weights(graph, {"vector": (48,)}).values()
    assert 0.3 < np.abs(values).max() <= 0.5


@pytest.mark.parametrize(("kernel", "stride", "groups"), [(4, 2, 1), (3, 1, 1), (4, 2, 16)])
def test_transposed_convolutions_keep_the_variance(engine: None, kernel: int, stride: int, groups: int) -> None:
    shapes = {"w": (16, 32 // groups, kernel, kernel)}
    attrs = {
        "kernel": str((kernel, kernel)), "stride": str((stride, stride)), "pad": "(1, 1)", "num_filter": "32",
        "num_group": str(groups), "no_bias": "True",
    }  # fmt: skip
    up = Node("up", "Deconvolution", (DATA, Tensor("w")), attrs)
    params = random_weights(Graph((up,), ("data", "w"), (Tensor("up"),)), shapes)
    data = np.random.default_rng(0).standard_normal((4, 16, 24, 24)).astype(np.float32)
    (computed,) = run(Graph((up,), ("data",), (Tensor("up"),), params), {"data": data})
    assert computed[:, :, 4:-4, 4:-4].var() == pytest.approx(1.0, abs=0.3)


@pytest.mark.requires("onednn")
def test_deformable_convolutions_do_not_amplify() -> None:
    b = Builder()
    data, channels = DATA, 8
    attrs = {"kernel": (3, 3), "pad": (1, 1), "no_bias": True}
    for number in range(5):
        weight, where = (
            b.param(f"w{number}_{count}", np.empty((count, channels, 3, 3), np.float32)) for count in (channels, 27)
        )
        places = b.op("Convolution", f"places{number}", data, where, num_filter=27, **attrs)
        offsets = b.op("slice_axis", f"offsets{number}", places, axis=1, begin=0, end=18)
        mask = b.op("slice_axis", f"mask{number}", places, axis=1, begin=18, end=27)
        share = b.op("sigmoid", f"share{number}", mask)
        inputs = data, offsets, share, weight
        data = b.op("_contrib_ModulatedDeformableConvolution", f"conv{number}", *inputs, num_filter=channels, **attrs)
    graph = b.graph(data)
    graph = replace(graph, params=random_weights(graph, {name: array.shape for name, array in graph.params.items()}))
    image = np.random.default_rng(0).standard_normal((1, channels, 32, 32)).astype(np.float32)
    one, other = (run(graph, {"data": image * np.float32(factor)})[0] for factor in (1, 1 + 2**-18))
    assert np.abs(one - other).max() < 2 * 2**-18 * np.abs(one).max()
