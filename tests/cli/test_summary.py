from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from quantkit.cli.summary import _algorithms_text, _sizes, proof_texts
from quantkit.quantization.speed import MedianInterval
from tests.quantized import SPEED


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


WHERE = "timed on Some CPU with 2 threads, batch 4, in mxnet 1.9.1 and no other engine"


def test_a_proof_says_what_was_compared_and_where() -> None:
    assert proof_texts(asdict(SPEED)) == [
        "INT8 is 1.50x [1.25, 1.75] as fast as FP32 fused; 1.00x [0.75, 1.25] with every layer in INT8",
        "1 of 3 layers returned to FP32, where they are faster",
        WHERE,
    ]
    disturbed = replace(SPEED, reference="fp32", returned=(), complete=False, threads=1, busy=1.25)
    assert proof_texts(asdict(disturbed)) == [
        "INT8 is 1.50x [1.25, 1.75] as fast as FP32 unfused",
        WHERE.replace("2 threads", "1 thread") + "; the search was ended by its budget (--search-minutes)",
        "UNRELIABLE: other processes used 1.2 cores meanwhile",
    ]


def test_fusion_that_does_not_pay_is_told_where_all_is_in_fp32() -> None:
    slower = replace(SPEED, faster=False, reference="fp32", fused=MedianInterval(0.5, 0.25, 0.75), busy=None)
    assert proof_texts(asdict(slower)) == [
        "every layer is in FP32: INT8 was 1.50x [1.25, 1.75] as fast as FP32 unfused, not faster",
        "FP32 FUSED IS SLOWER: 0.50x [0.25, 0.75] as fast as FP32 unfused; use that instead",
        WHERE,
    ]
    assert proof_texts(asdict(replace(slower, fused=SPEED.fused)))[1:] == [WHERE]
