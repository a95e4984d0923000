"""Collecting ranges, from an engine that hands out what the test made up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pytest

from quantkit.calibration import collect
from quantkit.calibration.collect import RangeCollection, collect_ranges
from quantkit.calibration.methods import METHODS
from quantkit.calibration.ranges import Range
from quantkit.data.batches import Batch
from quantkit.errors import DataError
from quantkit.ir.graph import Graph, Tensor
from tests.networks import DATA, Builder

RELU, SIN = Tensor("relu"), Tensor("sin")


def network() -> Graph:
    """Of its operators, the last is not needed for ``RELU`` and ``SIN``."""
    b = Builder()
    b.op("sin", "sin", b.relu("relu", DATA))
    return b.graph(b.op("cos", "unused", SIN))


class Computed:
    """What the engine would put out."""

    def __init__(self, graph: Graph, batch_size: int) -> None:
        assert "unused" not in [node.name for node in graph.nodes]
        assert batch_size == 4
        self._outputs = graph.outputs

    def outputs(self, batches: Iterable[np.ndarray]) -> Iterator[list[np.ndarray]]:
        for batch in batches:
            tensors = {"data": batch, "relu": np.maximum(batch, 0), "sin": np.sin(np.maximum(batch, 0))}
            yield [tensors[tensor.node] for tensor in self._outputs]


@pytest.fixture(autouse=True)
def _engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "BoundNetwork", Computed)


def test_every_tensor_has_the_range_of_all_batches() -> None:
    data = np.random.default_rng(0).normal(size=(11, 3, 5)).astype(np.float32)
    ranges = collect_ranges(network(), [SIN, DATA, RELU], [data[:4], data[4:8], data[8:]], 4, "minmax")
    positive = np.maximum(data, 0)
    assert ranges == {
        name: Range(float(values.min()), float(values.max()))
        for name, values in (("sin", np.sin(positive)), ("data", data), ("relu", positive))
    }


def test_the_method_is_that_asked_for() -> None:
    data = np.concatenate([np.linspace(0, 1, 4096), np.linspace(1, 9, 4096)]).astype(np.float32)
    ranges = collect_ranges(network(), [DATA], [data], 4, "percentile:50")
    assert ranges["data"].high == pytest.approx(1, abs=9 / 4096)


def test_errors_name_the_tensor() -> None:
    data = np.ones(3, np.float32)
    with pytest.raises(DataError, match=r"^tensor 'data': NaN or infinite values"):
        collect_ranges(network(), [RELU, DATA], [data, data * -np.inf], 4, "minmax")
    with pytest.raises(DataError, match="no values were observed"):
        collect_ranges(network(), [RELU], [], 4, "minmax")


def collection(method: str = "mse") -> RangeCollection:
    return RangeCollection(network(), (SIN, DATA, RELU), 4, method, "numbers")


def batches(data: np.ndarray) -> list[Batch]:
    return [Batch(data[start : start + 4], None, ()) for start in range(0, len(data), 4)]


@pytest.mark.parametrize("method", [*METHODS, "percentile:50"])
def test_however_batches_are_shared_out_the_result_is_that_of_all(method: str) -> None:
    data = np.random.default_rng(0).standard_cauchy(size=(23, 3, 50)).astype(np.float32)
    every, asked = batches(data), collection(method)
    whole = asked.combine([asked.partial(every)])
    assert whole.ranges == collect_ranges(network(), [SIN, DATA, RELU], [each.data for each in every], 4, method)
    assert whole.samples == 23
    for cuts in ([1], [2, 3], [1, 2, 3, 4, 5]):
        bounds = [0, *cuts, len(every)]
        parts = [asked.partial(every[start:stop]) for start, stop in pairwise(bounds)]
        assert asked.combine(parts) == whole


def test_the_order_of_samples_decides_their_hash_alone() -> None:
    data = np.random.default_rng(0).normal(size=(8, 3, 5)).astype(np.float32)
    asked = collection()
    parts = [asked.partial([each]) for each in batches(data)]
    one, other = asked.combine(parts), asked.combine(parts[::-1])
    assert one.ranges == other.ranges and one.data_sha256 != other.data_sha256


def test_samples_that_are_all_constant_are_refused() -> None:
    flat, asked = np.ones((8, 3, 5), np.float32), collection()
    with pytest.raises(DataError, match="every sample of numbers is constant"):
        asked.combine([asked.partial([each]) for each in batches(flat)])
    flat[6, 1] = range(5)
    assert asked.combine([asked.partial([each]) for each in batches(flat)]).samples == 8
