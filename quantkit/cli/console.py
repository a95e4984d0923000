"""A console for untrusted text: strings are printed literally, styles come from rich's ``Text`` alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from rich.console import Console, ConsoleOptions
from rich.console import RenderableType as RenderableType
from rich.segment import Segment

from quantkit.cli.work import without_controls


class PlainConsole(Console):
    """Rich's console without markup and emoji codes in strings, and without controls in any text."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: Optional[ConsoleOptions] = None) -> Iterable[Segment]:
        """Rich's segments, with controls removed from their text; their styles become controls later."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=without_controls(segment.text))
