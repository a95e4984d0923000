"""The wheel of this checkout, as users install it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.requirements import requires

ROOT = Path(__file__).parents[1]


def built_wheel(folder: Path) -> Path:
    """Build the wheel into ``folder``."""
    requires("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel
