"""The teacher of a distillation."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.training.teacher import Teacher
from quantkit.training.trainable import before_softmax
from tests.networks import images
from tests.training.conftest import SIZE, tiny


def test_scores_are_those_before_the_softmax() -> None:
    graph, data = tiny().graph, images(5, size=SIZE)
    teacher = Teacher(graph.with_outputs([before_softmax(graph, graph.outputs[0])]).pruned())
    chances = run(graph, {"data": data})[0]
    exponentials = np.exp(teacher.scores(data))
    assert exponentials / exponentials.sum(1, keepdims=True) == pytest.approx(chances, abs=1e-6)
    assert np.array_equal(teacher.classes(data), chances.argmax(1))
