"""The first fault of a document that does not fit its schema, in bounded time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import ValidationError

_LONGEST = 200

# What pydantic calls a key that a dataclass, and one that a model does not have.
_UNKNOWN_KEY = ("unexpected_keyword_argument", "extra_forbidden")

T = TypeVar("T")


class FirstFaultOnly:
    """Ends the validation of a list or a table at its first fault, since pydantic makes an object of each.

    It is pydantic's ``FailFast``, for modules that do not import pydantic.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), "fail_fast": True}


Many = Annotated[tuple[T, ...], FirstFaultOnly()]
"""A list of any length in a document."""


class Bounded:
    """The bounds of a value, by their names in pydantic's schemas, for modules that do not import pydantic."""

    def __init__(self, **bounds: Any) -> None:
        """Take the bounds."""
        self._bounds = bounds

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), **self._bounds}


AboveZero = Bounded(gt=0)
FiniteAboveZero = Bounded(gt=0, allow_inf_nan=False)
NotEmpty = Bounded(min_length=1)


def first_fault(error: ValidationError) -> tuple[str, str]:
    """The place of the first fault, empty for the document itself, and its description."""
    # The defaults, links and the values themselves, take many times longer.
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    what = "there is no such key" if first["type"] in _UNKNOWN_KEY else first["msg"]
    return ".".join(map(str, first["loc"]))[:_LONGEST], what
