from __future__ import annotations

import pytest

from quantkit.cli.summary import _algorithms_text, _sizes


@pytest.mark.parametrize(
    ("int8", "told"),
    [
        ({"LSTM": 2}, "biases, with 32 samples"),
        ({"Convolution+relu": 2, "LSTM": 1}, "biases, with 32 samples"),
        ({"Pooling": 2}, "nothing (no convolution, dense or LSTM layer runs in INT8)"),
    ],
)
def test_which_layers_are_adjusted(int8: dict[str, int], told: str) -> None:
    result = {
        "int8": int8,
        "algorithms": {"channel_shift": False, "refit": False, "rounding": False, "bias": True, "num_samples": 32},
        "calibration": {"samples": 32, "origin": "measured"},
    }
    assert _algorithms_text(result, "sample") == told


def test_whose_weights_the_checkpoint_has_in_fp32() -> None:
    told = "0.1 MB in FP32, 0.1 MB in the bundle"
    assert _sizes(100_000, 100_000, ()) == told
    late = f"{told} (MXNet quantizes the weights of convolutions and LSTM layers when it loads them)"
    assert _sizes(100_000, 100_000, ("convolutions", "LSTM layers")) == late
