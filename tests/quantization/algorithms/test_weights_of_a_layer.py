"""The weights that the walk gives one layer, against rows, ridge regression and curvature in double precision."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from quantkit.calibration.ranges import Range
from quantkit.ir.graph import Graph, Tensor
from quantkit.progress import silent
from quantkit.quantization.algorithms import reconstruction
from quantkit.quantization.algorithms.reconstruction import reconstruct
from quantkit.quantization.algorithms.rounding import Matrix, round_jointly
from quantkit.quantization.arithmetic import activation_params, dequantize, quantize
from quantkit.quantization.plan import QuantizationPlan, TensorQuantization
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.weights import engine_integers, per_channel_int8
from tests import numpy_engine
from tests.networks import DATA, Builder, images
from tests.quantization.algorithms.networks import planned

pytestmark = pytest.mark.usefixtures("engine")

STRENGTHS = (0.01, 0.1, 1.0, 10.0, np.inf)


@dataclass(frozen=True)
class Layer:
    """A network of one layer, what it reads and what it would put out, as rows of each group."""

    graph: Graph
    plan: QuantizationPlan
    data: np.ndarray
    seen: np.ndarray
    wanted: np.ndarray
    odd: np.ndarray

    @property
    def weight(self) -> np.ndarray:
        """(groups, channels, weights), float64."""
        flat = self.graph.params["layer_weight"].astype(np.float64)
        return flat.reshape(len(self.seen), -1, self.seen.shape[2])

    def fitted(self) -> tuple[np.ndarray, np.ndarray]:
        """The weights by ridge regression, and its strengths: the larger of those that serve the other half best."""
        found, strengths = [], []
        for seen, wanted, old in zip(self.seen, self.wanted, self.weight):
            halves = [(seen[half], wanted[half]) for half in (~self.odd, self.odd)]
            best = [
                min(STRENGTHS, key=lambda each: np.square(rows @ ridge(*own, old, each).T - aims).sum())
                for own, (rows, aims) in (halves, halves[::-1])
            ]
            strengths.append(max(best))
            found.append(ridge(seen, wanted, old, strengths[-1]))
        return np.array(found), np.array(strengths)

    def curvature(self, strengths: np.ndarray) -> np.ndarray:
        """What changes of weights cost together: the rows' products, and a ridge of at most their mean square."""
        products = self.seen.swapaxes(1, 2) @ self.seen
        ridges = np.clip(strengths, 0.01, 1) * np.square(self.seen).sum((1, 2)) / self.seen.shape[2]
        return np.asarray(products + ridges[:, None, None] * np.eye(self.seen.shape[2]))


def ridge(rows: np.ndarray, wanted: np.ndarray, old: np.ndarray, strength: float) -> np.ndarray:
    """Least squares towards the old weights, (channels, weights)."""
    if np.isinf(strength):
        return old
    pull = strength * np.square(rows).mean() * len(rows) * np.eye(rows.shape[1])
    return np.asarray(np.linalg.solve(rows.T @ rows + pull, rows.T @ wanted + pull @ old.T).T)


# Kernel, groups, pixels of a side and number of images.
LAYERS = {
    "1x1": (1, 1, 6, 6),
    "3x3": (3, 1, 6, 9),
    "in groups": (3, 2, 6, 6),
    "depthwise": (3, 4, 5, 4),
    "few rows": (3, 1, 2, 6),
    "few rows in groups": (3, 2, 2, 2),
    "dense": (0, 1, 2, 40),
    "dense, few rows": (0, 1, 3, 12),
    "one image": (1, 1, 6, 1),
}


def layer(name: str, clipped: float = 0.5) -> Layer:
    kernel, groups, size, count = LAYERS[name]
    data = images(count, 4, size, seed=2)
    b = Builder(3)
    # In groups the engine has one filter in each.
    filters = groups if groups > 1 else 8
    result = (
        b.conv("layer", DATA, 4, filters, kernel, groups=groups) if kernel else b.dense("layer", DATA, 4 * size**2, 6)
    )
    graph = b.graph(result)
    _, plan = planned(graph, data)
    form = (
        TensorQuantization(Range(-clipped, clipped), "int8")
        if kernel
        else TensorQuantization(Range(0.0, clipped), "uint8")
    )
    plan = replace(plan, tensors={**plan.tensors, DATA: form})
    step = activation_params(form.range, form.dtype)
    quantized = dequantize(quantize(data, step), step)
    exact = numpy_engine.run(graph, {"data": data})[0].astype(np.float64)
    if not kernel:
        seen, wanted = quantized.reshape(count, -1)[None], exact[None]
    else:
        padded = np.pad(quantized, ((0, 0), (0, 0), *((kernel // 2,) * 2,) * 2))
        rows = [
            padded[image, :, row : row + kernel, column : column + kernel].reshape(groups, -1)
            for image in range(count) for row in range(size) for column in range(size)
        ]  # fmt: skip
        seen = np.array(rows).swapaxes(0, 1)
        wanted = np.moveaxis(exact, 1, -1).reshape(-1, groups, filters // groups).swapaxes(0, 1)
    seen, wanted = (each - each.mean(axis=1, keepdims=True) for each in (seen.astype(np.float64), wanted))
    return Layer(graph, plan, data, seen, wanted, np.arange(seen.shape[1]) // (seen.shape[1] // count) % 2 == 1)


def adjusted(case: Layer, algorithms: PTQConfig) -> np.ndarray:
    return reconstruct(QuantizedGraph(case.graph, case.plan), case.data, algorithms, silent).graph.params[
        "layer_weight"
    ]


@pytest.mark.parametrize("name", LAYERS)
def test_refitted_weights_are_those_of_ridge_regression(name: str) -> None:
    case = layer(name)
    wanted, strengths = case.fitted() if name != "one image" else (case.weight, np.array([np.inf]))
    found = adjusted(case, PTQConfig(refit=True)).reshape(wanted.shape)
    np.testing.assert_allclose(found, wanted, atol=2e-3 * np.abs(wanted).max())
    assert np.isfinite(strengths).all() == (np.abs(found - case.weight).max(axis=(1, 2)) > 0.02).all()


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("refit", [True, False])
def test_rounded_weights_are_those_of_joint_rounding(name: str, refit: bool) -> None:
    """By the rows' curvature. The engine makes the same integers of them again."""
    case = layer(name)
    fits = refit and name != "one image"
    weight, strengths = case.fitted() if fits else (case.weight, np.full(len(case.seen), np.inf))
    found = adjusted(case, PTQConfig(refit=refit, rounding=True))
    flat = weight.reshape(len(found), -1)
    levels = 127.5 if found.ndim == 4 else 127.0
    scale = np.abs(flat).max(axis=1) / levels
    wanted = round_jointly(
        weight.astype(np.float32), scale.reshape(len(weight), -1).astype(np.float32),
        Matrix(case.curvature(strengths).astype(np.float32)),
    ).reshape(flat.shape)  # fmt: skip
    integers, steps = engine_integers(found) if found.ndim == 4 else per_channel_int8(found)
    # The engine reads scales of convolutions off their largest weight, to 1 in 1,000.
    np.testing.assert_allclose(steps, scale, rtol=4e-3 if fits else 1.1e-3)
    assert np.abs(integers.reshape(flat.shape) - wanted).max() <= (2 if fits else 1)
    assert (integers.reshape(flat.shape) != wanted).mean() < (0.1 if fits else 0.03)


def test_joint_rounding_keeps_the_scales_of_groups_of_channels() -> None:
    """These follow from other channels' weights, too."""
    b = Builder(3)
    graph = b.graph(b.conv("layer", DATA, 8, 16, groups=2))
    weight = (graph.params["layer_weight"] * np.exp(b.random.normal(size=(16, 1, 1, 1)))).astype(np.float32)
    graph = replace(graph, params={**graph.params, "layer_weight": weight})
    data = np.abs(images(6, 8, 8, seed=2))
    _, plan = planned(graph, data)
    network = reconstruct(QuantizedGraph(graph, plan), data, PTQConfig(rounding=True), silent)
    found = engine_integers(network.graph.params["layer_weight"], groups=2)
    nearest = engine_integers(weight, groups=2)
    np.testing.assert_allclose(found[1], nearest[1], rtol=1e-6)
    assert 0.02 < (found[0] != nearest[0]).mean() < 0.7

    def error(integers: np.ndarray, scale: np.ndarray) -> float:
        change = {
            "layer_weight": integers * scale[:, None, None, None] - weight,
            "layer_bias": np.zeros(16, np.float32),
        }
        result = numpy_engine.run(replace(graph, params=change), {"data": data})[0]
        return float(np.square(result - result.mean(axis=(0, 2, 3), keepdims=True)).mean())

    assert error(*found) < 0.95 * error(*nearest)


def test_of_many_rows_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there is memory for, within bounds; each with its own target, and known by its image."""
    case = layer("1x1")
    inputs = np.arange(6 * 4 * 36, dtype=np.float32).reshape(6, 4, 6, 6)
    target = inputs[:, :2] * 10
    from quantkit.ir.fused_layer import fused_layer_of

    fused_layer = fused_layer_of(case.graph.by_name["layer"])
    assert fused_layer is not None
    for elements, fewest, most, count in (
        (400, 10, 90, 90),
        (400, 10, 150, 100),
        (400, 120, 150, 120),
        (9**9, 1, 999, 216),
    ):
        for name, value in (("_ELEMENTS", elements), ("_FEWEST_ROWS", fewest), ("_ROWS", most)):
            monkeypatch.setattr(reconstruction, name, value)
        seen, wanted, odd = reconstruction._rows(fused_layer, inputs, target, 4)
        assert seen.shape == (1, count, 4)
        np.testing.assert_array_equal(reconstruction._rows(fused_layer, inputs, target, 4)[0], seen)
        np.testing.assert_allclose(seen.mean(axis=1), 0, atol=1e-3)
        np.testing.assert_allclose(wanted.mean(axis=1), 0, atol=1e-2)
        np.testing.assert_allclose(wanted, 10 * seen[:, :, :2], atol=0.1)
        # The first channel of the pixels says which they are; images are 144 numbers apart.
        places = np.rint(seen[0, :, 0] - seen[0, 0, 0]).astype(int)
        assert (np.diff(places) > 0).all()
        if count == 216:
            np.testing.assert_array_equal(odd, places // 144 % 2 == 1)
        else:
            assert 0.3 < odd.mean() < 0.7
            starts = np.flatnonzero(np.diff(odd.astype(int))) + 1
            assert len(starts) == 5
    assert Tensor("layer") in case.graph.outputs
