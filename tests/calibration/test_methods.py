"""Calibration methods by name."""

from __future__ import annotations

import pytest

from quantkit.calibration.methods import METHODS, observer
from quantkit.calibration.percentile import Percentile
from quantkit.errors import UserError


def test_every_name_makes_its_observer() -> None:
    for name, make in METHODS.items():
        assert type(observer(name)) is make
        assert observer(name) is not observer(name)


def test_the_number_reaches_the_observer() -> None:
    made = observer("percentile:99.9")
    assert isinstance(made, Percentile) and made.percent == 99.9


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("kl", "minmax, percentile, entropy, mse"),
        ("", "minmax, percentile, entropy, mse"),
        ("minmax:3", "takes no number"),
        ("percentile:", "not a number"),
        ("percentile:most", "not a number"),
        ("percentile:0", "out of range"),
        ("percentile:101", "out of range"),
        ("percentile:nan", "out of range"),
    ],
)
def test_refuses(method: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        observer(method)
