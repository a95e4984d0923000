from __future__ import annotations

import pytest

from quantkit.cli.summary import _algorithms_text, _sizes


@pytest.mark.parametrize(
    ("int8", "algorithms", "sizes"),
    [
        ({"LSTM": 2}, "nothing (only LSTM layers run in INT8)", "of LSTM layers when"),
        ({"Convolution+relu": 2, "LSTM": 1}, "biases, with 32 samples", "of convolutions and LSTM layers when"),
        ({"Pooling": 2}, "nothing (no convolution or dense layer runs in INT8)", "0.1 MB in the bundle"),
    ],
)
def test_which_layers_algorithms_and_sizes_are_of(int8: dict[str, int], algorithms: str, sizes: str) -> None:
    result = {
        "int8": int8,
        "algorithms": {"channel_shift": False, "refit": False, "rounding": False, "bias": True, "num_samples": 32},
        "calibration": {"samples": 32, "origin": "measured"},
    }
    assert _algorithms_text(result, "sample") == algorithms
    text = _sizes(100_000, 100_000, int8)
    assert sizes in text and ("when it loads them" in text) == (list(int8) != ["Pooling"])
