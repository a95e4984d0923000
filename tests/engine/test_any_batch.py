from __future__ import annotations

import numpy as np
import pytest

from quantkit.engine.any_batch import AnyBatch
from quantkit.engine.execute import run
from tests.networks import images, residual_v1

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 9])
def test_each_image_has_the_output_that_it_has_alone(count: int) -> None:
    graph, data = residual_v1(), images(count)
    alone = np.concatenate([run(graph, {"data": one[None]})[0] for one in data])
    (found,) = AnyBatch(graph, data.shape[1:]).run(data)
    np.testing.assert_allclose(found, alone, rtol=1e-5, atol=1e-5)


def test_sizes_are_bound_once_for_each_power_of_two_and_share_their_parameters() -> None:
    network = AnyBatch(residual_v1(), (3, 16, 16))
    for count in (3, 4, 3, 5, 8, 1):
        network.run(images(count))
    assert sorted(network._executors) == [1, 4, 8]
    assert len({id(executor._args) for executor in network._executors.values()}) == 1
