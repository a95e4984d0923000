"""Arguments held to their kinds, numbers in Python's own types."""

from __future__ import annotations

from numbers import Integral, Real

from quantkit.errors import UserError


def whole_number(name: str, value: object, least: int, usual: int = 32) -> int:
    """A whole number from ``least`` up.

    Raises:
        UserError: it is something else; the message gives the usual number as an example.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise UserError(f"{name} is {value!r}; give a whole number from {least} up, such as {usual}")
    return int(value)


def number(name: str, value: object, remedy: str) -> float:
    """A number; NaN and infinity are numbers, too.

    Raises:
        UserError: it is something else, or a whole number beyond every float; the message ends with the remedy.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UserError(f"{name} is {value!r}; {remedy}")
    try:
        return float(value)
    except OverflowError:
        raise UserError(f"{name} is larger than every float; {remedy}") from None


def seconds(name: str, value: object) -> float:
    """A time that threads can wait, from 0 to a million seconds.

    Raises:
        UserError: it is something else.
    """
    remedy = "give seconds, from 0 to 1000000"
    found = number(name, value, remedy)
    if not 0 <= found <= 1e6:
        raise UserError(f"{name} is {value!r}; {remedy}")
    return found


def of_kind(name: str, value: object, kind: type, whence: str) -> None:
    """Make sure that an argument is of its kind, before something in the middle of a stage fails at it.

    Raises:
        UserError: it is not; the message names its type, since the value may be long, and ends with where to get one.
    """
    if not isinstance(value, kind):
        raise UserError(f"{name} is of type {type(value).__name__}; give {_indefinite(kind.__name__)}, {whence}")


def _indefinite(noun: str) -> str:
    return f"an {noun}" if noun[0] in "AEIO" else f"a {noun}"
