"""How samples are cut into shards."""

from __future__ import annotations

from typing import Optional

# So that workers that are slower than others take fewer, and a lost one loses little.
_SHARDS_FOR_EACH = 4

# Progress and what is lost with a worker stay within a minute of an engine's time.
_MOST_SAMPLES = 256


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
