"""What is wrong with a document that does not fit its schema, told in bounded time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import ValidationError

_LONGEST = 200

T = TypeVar("T")


class FirstFaultOnly:
    """Ends the validation of a list or a table at its first fault: pydantic makes an object of each.

    It is pydantic's ``FailFast`` for modules that do not import pydantic.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), "fail_fast": True}


Many = Annotated[tuple[T, ...], FirstFaultOnly()]
"""A list of any length in a document."""


def first_fault(error: ValidationError) -> tuple[str, str]:
    """Where the first fault is, empty for the document itself, and what it is."""
    # What it adds by default, links and the values themselves, takes many times longer.
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return ".".join(map(str, first["loc"]))[:_LONGEST], first["msg"]
