"""The teacher of a distillation."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.training.teacher import Teacher
from quantkit.training.trainable import before_softmax
from tests.networks import images
from tests.training.conftest import SIZE, tiny

GRAPH = tiny().graph
SCORES = GRAPH.with_outputs([before_softmax(GRAPH, GRAPH.outputs[0])]).pruned()


def test_targets_are_what_the_network_puts_out() -> None:
    data = images(5, size=SIZE)
    chances = run(GRAPH, {"data": data})[0]
    teacher = Teacher(SCORES)
    assert not teacher.needs_labels
    assert teacher.targets(data, np.zeros((5, 3), np.float32)) == pytest.approx(chances, abs=1e-6)
    assert np.array_equal(teacher.classes(data), chances.argmax(1))


def test_the_rest_are_those_of_the_labels() -> None:
    data, labels = images(5, size=SIZE), np.eye(3, dtype=np.float32)[[0, 1, 2, 0, 1]]
    chances = run(GRAPH, {"data": data})[0]
    teacher = Teacher(SCORES, 0.25)
    assert teacher.needs_labels
    assert teacher.targets(data, labels) == pytest.approx(0.25 * chances + 0.75 * labels, abs=1e-6)
    none = Teacher(SCORES, 0.0)
    assert np.array_equal(none.targets(data, labels), labels)
