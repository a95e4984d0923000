"""What networks without predictions of their own kind are judged by: clips by their classes, others by their values."""

from __future__ import annotations

import numpy as np
import pytest

import quantkit
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.symbols import symbol_of
from tests.networks import DATA, Builder

CLASSES = 6
CLIPS = np.random.default_rng(6).normal(size=(20, 3, 4, 5, 5)).astype(np.float32)


def network(task: object) -> quantkit.Model:
    b = Builder()
    pooled = b.op("mean", "pooled", DATA, axis=(2, 3, 4))
    graph = b.graph(b.dense("values", pooled, 3, CLASSES))
    return quantkit.load_model(
        symbol_of(graph),
        params=graph.params,
        input_shape=CLIPS.shape[1:],
        task=task,  # type: ignore[arg-type]
    )


def test_clips_are_judged_by_their_classes(engine: None) -> None:
    model = network("action")
    (scores,) = run(model.graph, {"data": CLIPS})
    labels = scores.argsort(axis=1)[:, -1]
    # Four are second, two are last.
    labels[:4], labels[4:6] = scores.argsort(axis=1)[:4, -2], scores.argsort(axis=1)[4:6, 0]
    accuracy = quantkit.evaluate(model, (CLIPS, labels)).accuracy["network"]
    assert (accuracy.top1, accuracy.top5) == (pytest.approx(0.7), pytest.approx(0.9))


@pytest.mark.parametrize("task", ["embedding", "depth", "tracking"])
def test_values_are_judged_by_their_deviation(engine: None, task: str) -> None:
    """Even where a row of them looks like class scores."""
    model = network(task)
    evaluation = quantkit.evaluate(model, CLIPS, reference=model)
    agreement = evaluation.agreement["network"]
    assert not evaluation.class_scores.yes and agreement.top1 is None and agreement.outputs[0].deviation == 0
    assert quantkit.evaluate(network(None), CLIPS, reference=model).agreement["network"].top1 == 1.0
