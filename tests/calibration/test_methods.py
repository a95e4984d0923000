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
    made = observer("percentile")
    assert isinstance(made, Percentile) and made.percent == 99.99
    # Both ends of what is allowed.
    assert observer("percentile:100").range and observer("percentile:0.001").range


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("kl", "^unknown calibration method 'kl'; choose one of minmax, percentile, entropy, mse$"),
        ("", "^unknown calibration method ''; choose one of minmax, percentile, entropy, mse$"),
        ("minmax:3", "^calibration method minmax takes no number, but 'minmax:3' gives one; write minmax$"),
        ("percentile:", "^'' in calibration method 'percentile:' is not a number; write percentile:99.9$"),
        ("percentile:most", "'most' in .* not a number; write percentile:99.9"),
        ("percentile:9:9", "'9:9' in .* not a number"),
        ("percentile:-1", "percentile -1.0 is out of range; give a number above 0 and at most 100"),
        ("percentile:0", "out of range"),
        ("percentile:101", "out of range"),
        ("percentile:nan", "out of range"),
    ],
)
def test_refuses(method: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        observer(method)
