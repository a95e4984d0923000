"""The calibration methods by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from quantkit.calibration.entropy import Entropy
from quantkit.calibration.minmax import MinMax
from quantkit.calibration.mse import Mse
from quantkit.calibration.observer import Observer
from quantkit.calibration.percentile import Percentile
from quantkit.errors import UserError

DEFAULT_METHOD = "mse"

METHODS: Mapping[str, Callable[..., Observer]] = {
    "minmax": MinMax,
    "percentile": Percentile,
    "entropy": Entropy,
    "mse": Mse,
}
"""Makes a new observer, by the method's name; takes the number after the colon, if there is one."""


def observer(method: str) -> Observer:
    """A new observer for ``method``: a name in ``METHODS``, or a name and a number as in ``percentile:99.9``.

    Raises:
        UserError: the method is unknown, or its number is superfluous, malformed or out of range.
    """
    if not isinstance(method, str):
        raise UserError(f"method is {method!r}; give a name, such as 'entropy'")
    name, colon, number = method.partition(":")
    if name not in METHODS:
        raise UserError(f"unknown calibration method {method!r}; choose one of {', '.join(METHODS)}")
    make = METHODS[name]
    if not colon:
        return make()
    if not inspect.signature(make).parameters:
        raise UserError(f"calibration method {name} takes no number, but {method!r} gives one; write {name}")
    try:
        value = float(number)
    except ValueError:
        raise UserError(f"{number!r} in calibration method {method!r} is not a number; write {name}:99.9") from None
    return make(value)
