"""Which folders are bundles: what tells, known without importing what reads them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeGuard, Union

MANIFEST = "manifest.json"


def is_bundle(spec: object) -> TypeGuard[Union[str, Path]]:
    """Whether this is the path of a folder with a manifest, as quantkit writes it."""
    return isinstance(spec, (str, Path)) and os.path.isfile(Path(spec) / MANIFEST)
