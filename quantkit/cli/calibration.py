"""What ``quantize`` and ``calibrate`` say about the data that ranges come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from quantkit.cli.terminal import Terminal

if TYPE_CHECKING:
    from quantkit.calibration.recipes import Recipe
    from quantkit.stages import CalibrationSource


def tell_calibration(terminal: Terminal, calibration: CalibrationSource, calib: Optional[int]) -> None:
    """Say where ranges will come from; ``calib`` is the number of images asked for, by option or configuration."""
    if calibration.recipe is not None:
        _tell_recipe(terminal, calibration.recipe, calib)
    elif calibration.origin == "measured":
        tell_default_samples(terminal, calibration.data.name)


def _tell_recipe(terminal: Terminal, recipe: Recipe, calib: Optional[int]) -> None:
    from quantkit.data.sources import load_data

    unused = "" if calib in (None, recipe.table.samples) else f"; --calib {calib} has no effect without --calib-data"
    looked_at = load_data(recipe.samples).name
    terminal.tell(f"calibration: {recipe}{unused}")
    terminal.tell(f"the preset and the comparison with FP32 use {looked_at}; give your own with --calib-data")


def tell_default_samples(terminal: Terminal, name: str) -> None:
    """Say how far the default samples are suitable, if ``name`` is theirs."""
    from quantkit.data.default_samples import LIMITS, are_default

    if are_default(name):
        terminal.tell(f"calibration: {LIMITS} with --calib-data")
