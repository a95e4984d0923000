"""The configuration of a training."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from quantkit.errors import UserError
from quantkit.training.augmentation import Augmentation
from quantkit.training.config import TrainingConfig


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"epochs": 0}, "epochs is 0; give a whole number from 1 up"),
        ({"batch_size": 2.5}, "batch_size is 2.5; give a whole number from 1 up"),
        ({"optimizer": "lamb"}, "optimizer is 'lamb'; choose one of sgd, adam, adamax"),
        ({"schedule": "poly"}, "schedule is 'poly'; choose one of cosine, step, constant"),
        ({"learning_rate": 0}, "learning_rate is 0; give a number above 0"),
        ({"learning_rate": math.nan}, "learning_rate is nan; give a number above 0"),
        ({"momentum": 1}, "momentum is 1; give a number from 0 and below 1"),
        ({"label_smoothing": -0.1}, "label_smoothing is -0.1; give a number from 0 and below 1"),
        ({"warmup_epochs": math.inf}, "warmup_epochs is inf; give a number from 0"),
        ({"weight_decay": "much"}, "weight_decay is 'much'; give a number from 0"),
        ({"patience": 0}, "patience is 0; give a whole number from 1 up"),
        ({"seed": -1}, "seed is -1; give a whole number from 0 up"),
        ({"seed": 1 << 40}, f"seed is {1 << 40}; give at most {2**31 - 1}"),
        ({"mixup": 0.2, "batch_size": 1}, "mixup mixes samples in pairs, and batch_size is 1"),
        ({"epochs": 10**7}, "epochs is 10000000; give at most 1000000"),
        ({"freeze": "body"}, "freeze is 'body'; give a tuple of globs, such as ('body',)"),
        ({"augmentation": {}}, "augmentation is of type dict"),
    ],
)
def test_impossible_values_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        TrainingConfig(**wrong)
    assert words in str(caught.value)


def test_the_rate_grows_with_the_batch() -> None:
    sgd = TrainingConfig(learning_rate=0.1, batch_size=256)
    assert sgd.peak_rate == pytest.approx(0.1)
    assert replace(sgd, batch_size=64).peak_rate == pytest.approx(0.025)
    assert replace(sgd, batch_size=1024).peak_rate == pytest.approx(0.4)
    assert replace(sgd, optimizer="adam", batch_size=64).peak_rate == pytest.approx(0.05)
    assert TrainingConfig(optimizer="adamax", batch_size=256).peak_rate == pytest.approx(0.002)


def test_every_value_is_in_the_hash() -> None:
    changed: list[dict[str, Any]] = [
        {"epochs": 11}, {"batch_size": 16}, {"optimizer": "adam"}, {"learning_rate": 0.2}, {"momentum": 0.8},
        {"weight_decay": 0.0}, {"schedule": "step"}, {"warmup_epochs": 2}, {"label_smoothing": 0.1}, {"mixup": 0.2},
        {"freeze": ("body",)}, {"patience": 3}, {"seed": 1}, {"augmentation": Augmentation(flip=False)},
    ]  # fmt: skip
    hashes = {TrainingConfig(**each).sha256 for each in changed}
    assert len(hashes | {TrainingConfig().sha256}) == len(changed) + 1
