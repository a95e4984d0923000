"""Validation between epochs, against NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.data.arrays import arrays
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError
from quantkit.evaluation.accuracy import hits
from quantkit.ir.graph import Graph
from quantkit.models.dataset import dataset
from quantkit.training.teacher import Teacher
from quantkit.training.trainable import before_softmax
from quantkit.training.validation import Validated, share_of, validated
from tests.training.conftest import CLASSES, coloured, tiny


def scores_of(seed: float = 0.0) -> Graph:
    """The network without its softmax, its weights moved by a share."""
    graph = tiny().graph
    moved = {**graph.params, "dense_weight": graph.params["dense_weight"] + np.float32(seed)}
    moved["dense_weight"][0] *= -1
    changed = Graph(graph.nodes, graph.inputs, graph.outputs, moved if seed else graph.params)
    return changed.with_outputs([before_softmax(graph, graph.outputs[0])]).pruned()


def chances(graph: Graph, samples: Samples) -> np.ndarray:
    data = np.stack([(sample.image.transpose(2, 0, 1) / np.float32(255) - 0.5) / 0.25 for sample in samples])
    exponentials = np.exp(run(graph, {"data": data.astype(np.float32)})[0].astype(np.float64))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def test_instances_share_the_samples_and_the_memory_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of what is free has room for four samples in one process, and for two in each of two."""
    monkeypatch.setattr("quantkit.training.feed.available_memory", lambda: 4 * 4 * 1400)
    source, taken = coloured(30), list[int]()

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            taken.append(position)
            yield from source.read((position,))

    for beside, kept in ((1, 4), (2, 2)):
        share = share_of(tiny(), replace(source, read=read), 1, 3, beside)
        for again in (False, True):
            taken.clear()
            assert len([*share.samples]) == 10
            assert taken == [*range(1, 30, 3)][again * kept :]


def test_a_share_caches_no_more_than_other_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.training.feed.available_memory", lambda: 1 << 50)
    monkeypatch.setattr("quantkit.training.validation.CACHE_BYTES", 1400)
    share = share_of(tiny(), coloured(4), 0, 2, 1)
    (first, second), (once_more, anew) = ([sample.image for sample in share.samples] for _ in range(2))
    assert once_more is first and anew is not second


def test_fewer_samples_than_instances_are_refused() -> None:
    with pytest.raises(DataError, match="coloured has 2 samples for 3 instances; give more"):
        share_of(tiny(), coloured(2), 0, 3, 3)


@pytest.mark.parametrize("batch_size", [7, 30])
def test_the_loss_is_the_mean_cross_entropy_with_the_labels(batch_size: int) -> None:
    samples, graph = coloured(30, 1), scores_of()
    labels = np.array([sample.label for sample in samples])
    found = validated(graph, graph.params, dataset(tiny(), samples), batch_size, CLASSES)
    expected = chances(graph, samples)
    assert found.samples == 30 and found.correct == hits(expected, labels).sum()
    assert found.loss == pytest.approx(-np.log(expected[np.arange(30), labels]).mean(), rel=1e-5)
    assert found.top1 == found.correct / 30


def test_a_teachers_classes_stand_for_labels() -> None:
    samples, graph, other = coloured(30, 1), scores_of(), scores_of(0.3)
    unlabelled = arrays(np.stack([sample.image for sample in samples]), name="unlabelled")
    found = validated(graph, graph.params, dataset(tiny(), unlabelled), 8, CLASSES, Teacher(other))
    classes = chances(other, samples).argmax(axis=1)
    assert found.correct == (chances(graph, samples).argmax(axis=1) == classes).sum()
    assert 0 < found.correct < 30
    assert validated(other, other.params, dataset(tiny(), unlabelled), 8, CLASSES, Teacher(other)).correct == 30


def test_parameters_are_those_that_are_given() -> None:
    graph, other, samples = scores_of(), scores_of(0.3), dataset(tiny(), coloured(30, 1))
    assert validated(graph, other.params, samples, 8, CLASSES) == validated(other, other.params, samples, 8, CLASSES)


def test_samples_need_classes() -> None:
    unlabelled = arrays(np.zeros((4, 8, 8, 3), np.uint8), name="unlabelled")
    graph = scores_of()
    with pytest.raises(DataError, match=r"no label|no class for each sample"):
        validated(graph, graph.params, dataset(tiny(), unlabelled), 4, CLASSES)


def test_each_batch_is_a_sign_of_life() -> None:
    calls: list[None] = []
    graph = scores_of()
    validated(graph, graph.params, dataset(tiny(), coloured(30, 1)), 8, CLASSES, heartbeat=lambda: calls.append(None))
    assert len(calls) == 4


def test_more_correct_ones_are_better_and_of_as_many_the_smaller_loss() -> None:
    assert Validated(10, 6, 2.0).better_than(Validated(10, 5, 0.1))
    assert Validated(10, 6, 0.1).better_than(Validated(10, 6, 0.2))
    assert not Validated(10, 6, 0.2).better_than(Validated(10, 6, 0.2))
