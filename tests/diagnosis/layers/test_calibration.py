"""What is watched of networks' inputs."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.diagnosis.layers.calibration import InputWatch
from quantkit.models.layout import InputLayout

RANDOM = np.random.default_rng(6)


@pytest.mark.parametrize(("layout", "shape", "others"), [("NCHW", (9, 2, 4, 3), (0, 2, 3)), ("NTC", (9, 4, 2), (0, 1))])
def test_statistics_are_those_of_channels_and_features(
    layout: InputLayout, shape: tuple[int, ...], others: tuple[int, ...]
) -> None:
    data = RANDOM.normal(size=shape).astype(np.float32)
    watch = InputWatch(layout)
    watch.add(data[:4])
    watch.add(data[4:])
    statistics = watch.result()
    np.testing.assert_allclose(statistics.mean, data.mean(axis=others, dtype=float), rtol=1e-5)
    np.testing.assert_allclose(statistics.deviation, data.std(axis=others, dtype=float), rtol=1e-5)


def test_a_sequence_is_constant_where_no_feature_changes() -> None:
    data = RANDOM.normal(size=(5, 4, 3)).astype(np.float32)
    data[0] = data[0, 0]
    data[1] = data[1, :, :1]
    watch = InputWatch("NTC")
    watch.add(data)
    assert watch.result().constant == 1


def test_token_ids_have_no_features() -> None:
    watch = InputWatch("NT")
    watch.add(np.full((5, 4), 7, np.float32))
    statistics = watch.result()
    assert (statistics.mean, statistics.deviation, statistics.constant, statistics.whole) == ((), (), 0, True)
    assert len(watch.digests) == 5
