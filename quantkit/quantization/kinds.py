"""Values of configurations held to their kinds, in Python's own types."""

from __future__ import annotations

from numbers import Integral, Real

from quantkit.errors import UserError


def whole_number(name: str, value: object, least: int) -> int:
    """A whole number from ``least`` up.

    Raises:
        UserError: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise UserError(f"{name} is {value!r}; give a whole number from {least} up, such as 32")
    return int(value)


def number(name: str, value: object, remedy: str) -> float:
    """A number; NaN and infinity are numbers, too.

    Raises:
        UserError: it is something else; the message ends with the remedy.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UserError(f"{name} is {value!r}; {remedy}")
    return float(value)
