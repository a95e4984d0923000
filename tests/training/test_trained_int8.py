"""The record of a training with quantization."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import pytest

from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.data.left_out import LeftOut
from quantkit.training.config import TrainingConfig
from quantkit.training.epoch import Epoch
from quantkit.training.trained_int8 import TrainedInt8, with_record
from quantkit.training.validation import Validated
from quantkit.version import __version__

NETWORK = QuantizedModel(*cast(Any, [None] * 5))


def trained(network: QuantizedModel = NETWORK, seconds: float = 2.0) -> TrainedInt8:
    epochs = [
        Epoch(1, 1.5, 0.1, seconds, 100, 0.5, Validated(60, 45, 0.7)),
        Epoch(2, 1.2, 0.05, seconds, 100, 0.0, Validated(60, 30, 0.9)),
    ]
    config = TrainingConfig(epochs=2, learning_rate=0.5, seed=3)
    left_out = (LeftOut(4, "holiday.jpg", "holiday.jpg is damaged"),)
    before, data = Validated(60, 40, 0.8), ("photographs", "others")
    return TrainedInt8(network, config, False, epochs, 1, before, data, left_out)


def record_of(result: TrainedInt8) -> dict[str, Any]:
    assert result.network.training is not None
    return dict(result.network.training)


def test_it_says_how_a_network_was_trained() -> None:
    record = record_of(with_record(trained()))
    assert record["quantkit"] == __version__
    assert (record["train"], record["validation"], record["distill"]) == ("photographs", "others", False)
    assert [record["config"][name] for name in ("epochs", "learning_rate", "seed")] == [2, 0.5, 3]
    assert record["config"]["augmentation"]["flip"] is True
    assert record["before"] == {"samples": 60, "correct": 40, "loss": 0.8}
    assert record["epochs"][1] == {
        "number": 2,
        "loss": 1.2,
        "rate": 0.05,
        "samples": 100,
        "validated": {"samples": 60, "correct": 30, "loss": 0.9},
    }
    assert (record["best_epoch"], record["left_out"], record["validation_left_out"]) == (1, 1, 0)
    assert "earlier" not in record


def test_equal_trainings_have_equal_records_that_name_no_sample() -> None:
    first, second = (record_of(with_record(trained(seconds=seconds))) for seconds in (2.0, 3.0))
    assert first == second and "holiday" not in repr(first)


def test_what_was_trained_before_is_kept() -> None:
    once = with_record(trained())
    twice = record_of(with_record(trained(once.network)))
    assert twice["earlier"] == once.network.training


@pytest.mark.parametrize("loss", [math.inf, math.nan])
def test_a_loss_that_json_cannot_have_is_left_out(loss: float) -> None:
    unjudged = replace(trained(), before=Validated(60, 0, loss), epochs=[Epoch(1, 1.5, 0.1, 2.0, 100, 0.5, None)])
    record = record_of(with_record(unjudged))
    assert record["before"]["loss"] is None and record["epochs"][0]["validated"] is None
