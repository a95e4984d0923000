"""The algorithms as a whole: what each technique and each preset does to a network's error in INT8."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.errors import DataError, UserError
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fused_model import FusedModel
from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Graph, Tensor
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.progress import silent
from quantkit.quantization.algorithms import reconstruction
from quantkit.quantization.algorithms.apply import apply_algorithms, with_mirrored
from quantkit.quantization.algorithms.stage import apply_algorithms as apply_to_model
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.ptq_config import NO_ALGORITHMS, PRESETS, PTQConfig, most_waiting, preset
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder, images, inverted_residual, residual_v1, residual_v2
from tests.quantization.algorithms.networks import planned, simulated

pytestmark = pytest.mark.usefixtures("engine")
INT8 = pytest.mark.usefixtures("int8_engine")

SEEN = images(24, seed=3)
UNSEEN = images(64, seed=9)

TECHNIQUES = {
    "refit": PTQConfig(refit=True),
    "rounding": PTQConfig(rounding=True),
    "bias": PTQConfig(bias=True),
    "all": PRESETS["balanced"],
}


def narrow() -> Graph:
    """Few channels and weights of very different size: coarse, so that there is much to recover."""
    b = Builder()
    data = b.relu("relu0", b.conv("conv0", DATA, 3, 4))
    for index in range(1, 5):
        data = b.relu(f"relu{index}", b.conv(f"conv{index}", data, 4, 4, groups=4 if index % 2 else 1))
    pooled = b.op("Pooling", "pool", data, global_pool=True, pool_type="avg", kernel=(1, 1))
    graph = b.graph(b.dense("dense", b.op("Flatten", "flatten", pooled), 4, 10))
    heavy = {
        name: value * np.where(np.random.default_rng(7).random(value.shape) < 0.15, 8, 0.5).astype(np.float32)
        for name, value in graph.params.items()
        if name.endswith("weight")
    }
    return replace(graph, params={**graph.params, **heavy})


def error(graph: Graph, plan: QuantizationPlan, reference: Graph) -> float:
    """The mean squared error in INT8 on images that nothing was fitted to."""
    exact = run(float_graph(reference), {"data": UNSEEN})[0]
    return float(np.square(run(int8_graph(QuantizedGraph(graph, plan)), {"data": UNSEEN})[0] - exact).mean())


@INT8
@pytest.mark.parametrize("name", TECHNIQUES)
def test_each_technique_lowers_the_error_on_new_images(name: str) -> None:
    graph = narrow()
    fused, plan = planned(graph, SEEN)
    found = apply_algorithms(
        QuantizedGraph(fused.graph, plan), fused.original, [SEEN], "minmax", TECHNIQUES[name], silent
    )
    assert error(found.network.graph, found.network.plan, fused.graph) < 0.8 * error(fused.graph, plan, fused.graph)


@INT8
@pytest.mark.requires("vnni")
@pytest.mark.parametrize("graph", [residual_v1(True), residual_v2(), inverted_residual()], ids=["v1", "v2", "inverted"])
def test_all_together_on_blocks_of_real_networks(graph: Graph) -> None:
    fused, plan = planned(graph, SEEN)
    found = apply_algorithms(
        QuantizedGraph(fused.graph, plan), fused.original, [SEEN[:10], SEEN[10:]], "minmax", PRESETS["balanced"], silent
    )
    assert error(found.network.graph, found.network.plan, fused.graph) < 0.9 * error(fused.graph, plan, fused.graph)
    assert found.algorithms == replace(PRESETS["balanced"], num_samples=len(SEEN))
    assert found.network.plan.decisions == plan.decisions


@INT8
def test_one_image_is_enough_to_run() -> None:
    fused, plan = planned(residual_v1(), SEEN)
    found = apply_algorithms(
        QuantizedGraph(fused.graph, plan), fused.original, [SEEN[:1]], "minmax", PRESETS["balanced"], silent
    )
    assert np.isfinite(
        run(int8_graph(QuantizedGraph(found.network.graph, found.network.plan)), {"data": UNSEEN})[0]
    ).all()


def test_a_layer_of_one_channel_is_fitted_too() -> None:
    b = Builder()
    graph = b.graph(b.conv("last", b.relu("relu", b.conv("conv", DATA, 3, 8)), 8, 1))
    fused, plan = planned(graph, SEEN)
    found = apply_algorithms(
        QuantizedGraph(fused.graph, plan), fused.original, [SEEN], "minmax", PRESETS["balanced"], silent
    )
    assert not np.array_equal(found.network.graph.params["last_weight"], fused.graph.params["last_weight"])


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_channel_of_the_smallest_weights_stays_dead() -> None:
    graph = narrow()
    weight = graph.params["conv0_weight"].copy()
    weight[1] *= 1e-44
    fused, plan = planned(replace(graph, params={**graph.params, "conv0_weight": weight}), SEEN)
    found = apply_algorithms(
        QuantizedGraph(fused.graph, plan), fused.original, [SEEN], "minmax", PTQConfig(rounding=True, bias=True), silent
    )
    assert not found.network.graph.params["conv0_weight"][1].any()


def test_the_same_images_give_the_same_network() -> None:
    fused, plan = planned(residual_v1(), SEEN)
    first, second = (
        apply_algorithms(QuantizedGraph(fused.graph, plan), fused.original, [SEEN], "mse", PRESETS["balanced"], silent)
        for _ in range(2)
    )
    assert first.network.graph.params.keys() == second.network.graph.params.keys()
    for name, value in first.network.graph.params.items():
        np.testing.assert_array_equal(value, second.network.graph.params[name])


def test_layers_in_fp32_keep_their_weights() -> None:
    fused, plan = planned(residual_v1(), SEEN, "conv1")
    found = apply_algorithms(
        QuantizedGraph(fused.graph, plan), fused.original, [SEEN], "minmax", PRESETS["balanced"], silent
    )
    layer = fused_layer_of(found.network.graph.by_name["relu1"])
    assert layer is not None
    assert plan.decisions["relu1"].precision == "fp32"
    np.testing.assert_array_equal(found.network.graph.params[layer.weight.node], fused.graph.params[layer.weight.node])


def test_mirror_images_fill_up_what_is_missing() -> None:
    batches = [SEEN[:4], SEEN[4:6]]
    for most, wanted in ((5, SEEN[:6]), (8, np.concatenate([SEEN[:6], np.flip(SEEN[:2], axis=3)]))):
        np.testing.assert_array_equal(np.concatenate(with_mirrored(batches, most)), wanted)
    assert len(np.concatenate(with_mirrored(batches, 100))) == 12


@pytest.mark.parametrize(("count", "total"), [(1, 1), (2, 4), (5, 9), (6, 12)])
def test_no_half_of_the_images_holds_mirror_images_of_the_other(count: int, total: int) -> None:
    found = np.concatenate(with_mirrored([SEEN[:count]], 100))
    assert len(found) == total
    even, odd = ({min(image.tobytes(), image[..., ::-1].tobytes()) for image in found[half::2]} for half in (0, 1))
    assert not even & odd


@pytest.mark.parametrize(
    ("algorithms", "looked_at"),
    [(PTQConfig(bias=True, mirror=True), 16), (PTQConfig(bias=True), 8), (PTQConfig(mirror=True), 0)],
)
def test_mirror_images_are_looked_at_where_they_serve_a_technique(
    digits_fused: FusedModel, digits_int8: QuantizedModel, algorithms: PTQConfig, looked_at: int
) -> None:
    found = apply_to_model(digits_fused, digits_int8.table, digits_int8.plan, "digits:train", algorithms)
    assert found.algorithms.num_samples == looked_at


def test_none_changes_nothing() -> None:
    fused, plan = planned(residual_v1(), SEEN)
    found = apply_algorithms(QuantizedGraph(fused.graph, plan), fused.original, [], "minmax", preset("none"), silent)
    assert (found.network.graph, found.network.plan, found.algorithms) == (fused.graph, plan, NO_ALGORITHMS)


def test_without_samples_there_is_a_clear_error() -> None:
    fused, plan = planned(residual_v1(), SEEN)
    with pytest.raises(DataError, match="no samples"):
        apply_algorithms(QuantizedGraph(fused.graph, plan), fused.original, [], "minmax", preset("fast"), silent)


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(UserError, match="none, fast, balanced, best"):
        preset("fastest")


def test_as_many_images_as_memory_holds() -> None:
    fused, _ = planned(residual_v1(), images(size=16))
    assert PRESETS["balanced"].samples(fused) == 32 * 224 * 224 // 256
    large = replace(fused, shapes=dict.fromkeys(fused.shapes, (1, 4096, 1024, 1024)))
    assert PRESETS["best"].samples(large) == 1


def test_tensors_that_wait_to_be_read_count_for_memory() -> None:
    b = Builder()
    parts = [b.op("relu", f"relu{index}", DATA) for index in range(5)]
    chain = b.op("add_n", "add", *parts, num_args=5)
    graph = b.graph(b.op("tanh", "tanh", chain))
    shapes = {DATA: (1, 2, 3), **{node.output: (1, 2, 3) for node in graph.nodes}}
    # The five and the sum of them; the input is gone by then.
    assert most_waiting(graph, shapes) == 6 * 6
    assert most_waiting(graph.with_outputs([DATA, Tensor("tanh")]), shapes) == 7 * 6
    known = {tensor: shape for tensor, shape in shapes.items() if tensor != parts[0]}
    assert most_waiting(graph, known) == 5 * 6
    assert most_waiting(replace(graph, nodes=graph.nodes[:1], outputs=parts[:1]), shapes) == 2 * 6
    fused, _ = planned(residual_v1(), images(size=16))
    large = replace(fused, graph=graph, shapes=dict.fromkeys(shapes, (1, 4096, 4096, 1)))
    assert PRESETS["balanced"].samples(large) == 5


@pytest.mark.requires("vnni")
def test_layers_too_wide_to_be_fitted_keep_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    fused, plan = planned(residual_v1(), SEEN)
    network = QuantizedGraph(fused.graph, plan)
    monkeypatch.setattr(reconstruction, "_ELEMENTS", 1000 * 16 * 9 - 1)
    found = apply_algorithms(network, fused.original, [SEEN], "minmax", PTQConfig(refit=True), silent).network
    changed = {
        layer.node.name
        for layer in network.int8_layers
        if not np.array_equal(found.graph.params[layer.weight.node], fused.graph.params[layer.weight.node])
    }
    # The others read 16 channels of 3 x 3, or have nothing to gain.
    assert changed == {"relu0"}


@pytest.mark.parametrize("graph", [residual_v1(True), residual_v2()], ids=["v1", "v2"])
def test_layers_with_a_sum_are_fitted_to_what_the_addend_leaves(graph: Graph) -> None:
    """The simulated error of the sum falls, which it does not where the fit aims at something else."""
    fused, plan = planned(graph, SEEN)
    (name,) = (node.name for node in fused.graph.nodes if (layer := fused_layer_of(node)) and layer.addend is not None)
    found = apply_algorithms(
        QuantizedGraph(fused.graph, plan), fused.original, [SEEN], "minmax", PTQConfig(refit=True), silent
    )
    (exact,) = run(float_graph(fused.graph).with_outputs([Tensor(name)]).pruned(), {"data": SEEN})
    errors = [
        np.square(simulated(each, found.network.plan, SEEN, {})[Tensor(name)] - exact).mean()
        for each in (found.exact, found.network.graph)
    ]
    assert errors[1] < 0.97 * errors[0]
