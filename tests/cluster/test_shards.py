"""How samples are cut into shards."""

from __future__ import annotations

import pytest

from quantkit.cluster.shards import shard_size


@pytest.mark.parametrize(
    ("samples", "batch_size", "workers", "wanted", "size"),
    [
        (10_000, 8, 2, None, 256),
        (1_000, 8, 2, None, 128),
        (1_000, 8, 100, None, 8),
        (100, 4, 2, None, 16),
        (3, 4, 2, None, 4),
        (None, 8, 2, None, 256),
        (50_000, 8, 512, 60, 64),
        (50_000, 8, 512, 64, 64),
    ],
)
def test_shards_are_whole_batches(
    samples: int | None, batch_size: int, workers: int, wanted: int | None, size: int
) -> None:
    assert shard_size(samples, batch_size, workers, wanted) == size
