"""PyTorch's names."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def is_torch_layout(arrays: Mapping[str, np.ndarray]) -> bool:
    return False


def from_torch(structured: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]], arrays: Mapping[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
    return dict(arrays)
