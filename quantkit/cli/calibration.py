"""What ``quantize`` and ``calibrate`` say of the data that ranges are from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from quantkit.cli.terminal import Terminal

if TYPE_CHECKING:
    from quantkit.calibration.recipes import Recipe


def tell_recipe(terminal: Terminal, recipe: Recipe, calib: Optional[int]) -> None:
    """Say that a table that ships takes the place of calibration; ``calib`` is the number of images asked for."""
    from quantkit.data.sources import open_samples

    unused = "" if calib is None else f"; --calib {calib} has nothing to do without --calib-data"
    looked_at = open_samples(recipe.samples).name
    terminal.tell(f"calibration: {recipe}{unused}")
    terminal.tell(f"the preset and the comparison with FP32 look at {looked_at}; give your own with --calib-data")


def tell_default_samples(terminal: Terminal, name: str) -> None:
    """Say what the default samples can stand for, where sample data of this name are these."""
    from quantkit.data.default_samples import LIMITS, are_default

    if are_default(name):
        terminal.tell(f"calibration: {LIMITS} with --calib-data")
