"""How samples are cut into shards."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Optional

import numpy as np

# So that workers that are slower than others take fewer, and a lost one loses little.
_SHARDS_FOR_EACH = 4

# Progress and what is lost with a worker stay within a minute of an engine's time.
_MOST_SAMPLES = 256

_MOST_BYTES = 2**26


def shard_size(samples: Optional[int], batch_size: int, workers: int, wanted: Optional[int] = None) -> int:
    """How many samples each shard has: whole batches, since engines may compute other values in other batches.

    Args:
        samples: how many there are; None if that is unknown.
        batch_size: how many an engine reads at once.
        workers: how many shards are computed at once.
        wanted: how many the user asks for.
    """
    size = wanted
    if size is None:
        size = _MOST_SAMPLES if samples is None else min(_MOST_SAMPLES, -(-samples // (workers * _SHARDS_FOR_EACH)))
    return -(-max(size, 1) // batch_size) * batch_size


def prepared_shard_size(size: int, batch_size: int, input_shape: Sequence[int]) -> int:
    """The same for samples that are sent: shards of at most 64 MiB, but of a batch at least."""
    batches = _MOST_BYTES // (batch_size * prod(input_shape) * np.dtype(np.float32).itemsize)
    return min(size, max(1, batches) * batch_size)
