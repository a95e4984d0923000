"""How samples are cut into shards."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantkit.cluster.shards import Span, most_samples, spans


@pytest.mark.parametrize(
    ("batch_size", "wanted", "sent", "most"),
    [
        (8, None, (), 256),
        (100, None, (), 300),
        (8, 60, (), 64),
        (8, 64, (), 64),
        (8, 1, (), 8),
        (8, None, (3, 224, 224), 104),
        (8, None, (3, 32, 32), 256),
        (8, None, (3, 4096, 4096), 8),
    ],
)
def test_shards_are_whole_batches_at_most(
    batch_size: int, wanted: int | None, sent: tuple[int, ...], most: int
) -> None:
    assert most_samples(batch_size, wanted, sent) == most


def test_shards_become_smaller_towards_the_end() -> None:
    assert sizes(spans(100, 4, 256, 2)) == [24, 16, 12, 12, 8, 4, 4, 4, 4, 4, 4, 4]
    assert sizes(spans(2000, 8, 256, 2)) == [256, 256, 256, 256, 240, 184, 136, 104, 72, 56, 40, 32, 24, 24, 24, 24, 16]


def test_all_have_the_size_that_the_user_asks_for() -> None:
    assert sizes(spans(100, 4, 32, None)) == [32, 32, 32, 4]


def test_what_is_known_is_not_cut_again() -> None:
    known = [(24, 40), (0, 8), (32, 64)]
    assert spans(100, 4, 32, None, known) == [(0, 8), (8, 24), (24, 40), (40, 72), (72, 100)]
    assert spans(100, 4, 32, None, [(0, 100)]) == [(0, 100)]


def test_a_scheduler_is_not_flooded() -> None:
    assert len(spans(50_000, 8, 256, 512)) < 2100


@given(
    samples=st.integers(1, 5000),
    batch_size=st.integers(1, 40),
    most=st.integers(1, 20),
    workers=st.one_of(st.none(), st.integers(1, 600)),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_every_sample_is_in_one_shard_of_whole_batches(
    samples: int, batch_size: int, most: int, workers: int | None, cuts: list[int]
) -> None:
    known = [(start * batch_size, min(stop * batch_size, samples)) for start, stop in pairwise(cuts)]
    known = [(start, stop) for start, stop in known if start < stop]
    found = spans(samples, batch_size, most * batch_size, workers, known)
    assert [place for span in found for place in range(*span)] == list(range(samples))
    assert all(start % batch_size == 0 for start, _ in found)
    assert all(stop - start <= most * batch_size for start, stop in found if (start, stop) not in known)


@given(samples=st.integers(1, 100_000), batch_size=st.integers(1, 16), workers=st.integers(1, 64))
def test_workers_that_are_alike_finish_together(samples: int, batch_size: int, workers: int) -> None:
    busy = [0] * workers
    for size in sizes(spans(samples, batch_size, most_samples(batch_size), workers)):
        busy[busy.index(min(busy))] += size
    # The last shard is a thirty-second of a worker's share, and no less than a batch.
    assert max(busy) <= samples / workers + max(samples / workers / 32, samples / 2048, batch_size)


def sizes(found: list[Span]) -> list[int]:
    return [stop - start for start, stop in found]
