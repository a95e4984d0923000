"""What one scale for all features costs, against layers whose features are rounded one by one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import quantkit
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.ir.graph import Graph
from quantkit.quantization.feature_scales import FeatureScaleWarning, shared_scale_cost, warn_of_feature_scales
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder
from tests.quantization.recurrent_networks import quantized
from tests.sequences import FEATURES, sequence_network, sequences

RANDOM = np.random.default_rng(8)
UNITS = np.float32([1000, 1, 1, 1, 1])


def noise(data: np.ndarray, weight: np.ndarray, scale: np.ndarray) -> float:
    return float(np.square((np.rint(data / scale) * scale - data) @ weight.T).sum())


def test_the_cost_is_that_of_rounding() -> None:
    units = np.float32([8, 1, 1, 1, 1])
    data, weight = RANDOM.uniform(-1, 1, (4000, 5)) * units, RANDOM.normal(size=(7, 5)) / units
    peaks = np.abs(data).max(axis=0)
    one, own = (noise(data, weight, scale) for scale in (peaks.max() / 127, peaks / 127))
    assert shared_scale_cost(peaks, weight) == pytest.approx(10 * np.log10(one / own), abs=0.5)


def test_features_that_are_never_used_cost_nothing() -> None:
    weight = RANDOM.normal(size=(7, 5))
    assert shared_scale_cost(np.array([1.0, 1.0, 0.0, 0.0, 1.0]), weight) == pytest.approx(0)
    assert shared_scale_cost(np.zeros(5), weight) == 0
    # Small ones that the layer hardly reads, such as pixels at the edge, matter little.
    assert shared_scale_cost(np.array([1, 1, 1, 1, 1e-3]), weight) < 5


def in_other_units(units: np.ndarray) -> Graph:
    graph = sequence_network("NTC")
    flat = graph.params["parameters"].copy()
    rows = 4 * 8
    flat[: rows * FEATURES] = (flat[: rows * FEATURES].reshape(rows, FEATURES) / units).ravel()
    graph.params["parameters"] = flat
    return graph


def test_lstm_layers_are_named(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    data = sequences(8, tokens=False)
    plain: QuantizedGraph = quantized(monkeypatch, sequence_network("NTC"), data)[1]
    assert len(plain.int8_lstms) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", FeatureScaleWarning)
        warn_of_feature_scales(plain, [data])
    other = quantized(monkeypatch, in_other_units(UNITS), data * UNITS)[1]
    with pytest.warns(FeatureScaleWarning, match=r"costs lstm up to 6\d dB .*--exclude lstm\)") as told:
        warn_of_feature_scales(other, [data[:4] * UNITS, data[4:] * UNITS])
    assert len(told) == 1


@pytest.mark.usefixtures("int8_engine")
def test_quantize_warns_of_dense_layers() -> None:
    b = Builder()
    graph = b.graph(b.dense("scores", DATA, 5, 3))
    graph.params["scores_weight"] /= UNITS
    model = quantkit.load_model(symbol_of(graph), params=graph.params, input_shape=(5,))
    data = RANDOM.normal(size=(16, 5)).astype(np.float32)
    with pytest.warns(FeatureScaleWarning, match="costs scores up to"):
        quantkit.quantize(model, data * UNITS, quantkit.QuantizationConfig(preset="none"))
