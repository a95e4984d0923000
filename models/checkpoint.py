"""How the training scripts write what they have trained."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from quantkit.files.files import sha256_of


def save(network: Any, out: Path, name: str) -> str:
    """Write ``name-symbol.json`` and ``name-0000.params`` into the folder ``out``, each whole or not at all.

    Args:
        network: a hybridized Gluon block that has run once.
        out: the folder; made if it is missing.
        name: what the files are called.

    Returns:
        the SHA-256 of the parameter file, for the model card.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as folder:
        network.export(str(Path(folder) / name), epoch=0)
        for file in (f"{name}-0000.params", f"{name}-symbol.json"):
            os.replace(Path(folder) / file, out / file)
    return sha256_of(out / f"{name}-0000.params")
