from __future__ import annotations

from dataclasses import replace

import pytest

from quantkit.quantization.speed import MedianInterval
from tests.quantized import SPEED


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.01, 1.2, "faster"),
        (0.8, 0.99, "slower"),
        (0.9, 1.1, "not distinguishable"),
        (1.0, 1.1, "not distinguishable"),
        (0.9, 1.0, "not distinguishable"),
    ],
)
def test_only_an_interval_without_1_tells_speeds_apart(low: float, high: float, verdict: str) -> None:
    assert MedianInterval((low + high) / 2, low, high).verdict == verdict


def test_the_latencies_are_those_of_the_network_that_is_kept() -> None:
    assert SPEED.latencies == {"fp32": 4.0, "fp32_fused": 3.0, "int8": 2.0}
    assert replace(SPEED, faster=False).latencies == {"fp32": 4.0, "fp32_fused": 3.0}
    # Where no layer was returned, it is the one all in INT8.
    timed = {name: value for name, value in SPEED.milliseconds.items() if name != "int8"}
    assert replace(SPEED, milliseconds=timed).latencies["int8"] == 3.0
