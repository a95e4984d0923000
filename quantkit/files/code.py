"""Which code has made a result: a hash of source files."""

from __future__ import annotations

import hashlib
from pathlib import Path


def code_hash(*parts: str) -> str:
    """A hash of the source of some of quantkit's packages and modules; of all of them if none is named."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for place in [root / part for part in parts] or [root]:
        for path in sorted(place.rglob("*.py")) or [place.with_suffix(".py")]:
            digest.update(path.read_bytes())
    return digest.hexdigest()
