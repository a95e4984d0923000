"""Measuring the data feed against sources and a network whose speeds are known: they sleep."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from quantkit.data.preprocess import Preprocess
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError
from quantkit.evaluation import feed
from quantkit.evaluation.feed import Feed, Images, Rate, measure_feed
from tests.networks import DATA, Builder

SHAPE = (3, 4, 4)
PREPROCESS = Preprocess(None, 4, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
BATCH = 4


def slow_samples(again: float, first: float = 0.0, count: int = 12) -> Samples:
    """Images that take ``first`` seconds to read for the first time and ``again`` afterwards."""
    seen: set[int] = set()

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            time.sleep(again if position in seen else first or again)
            seen.add(position)
            yield Sample(np.full((6, 5, 3), position, np.uint8), None, f"image {position}")

    return Samples("slow", read, count, independent=True)


class Network:
    """Stands in for the engine: every run takes ``seconds``."""

    seconds = 0.0
    runs: int

    def __init__(self, _: object, shapes: Mapping[str, tuple[int, ...]]) -> None:
        assert shapes == {"data": (BATCH, *SHAPE)}
        Network.runs = 0

    def run(self, inputs: Mapping[str, np.ndarray]) -> None:
        assert inputs["data"].shape == (BATCH, *SHAPE) and inputs["data"].dtype == np.float32
        Network.runs += 1
        time.sleep(self.seconds)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> type[Network]:
    monkeypatch.setattr(feed, "Executor", Network)
    return Network


def measured(samples: Samples, workers: int = 4, preprocess: Preprocess | None = PREPROCESS) -> Feed:
    b = Builder()
    return measure_feed(b.graph(b.relu("relu", DATA)), samples, preprocess, SHAPE, BATCH, workers, seconds=2.0)


def near(value: float, limit: float) -> bool:
    """Whether a rate is what sleeping allows at most, less what a busy machine takes."""
    return 0.6 * limit < value < 1.05 * limit


def test_a_network_that_starves(network: type[Network]) -> None:
    network.seconds = 0.005
    found = measured(slow_samples(0.02))
    assert near(found.one_worker.median, 1 / 0.02)
    assert near(found.all_workers.median, 4 / 0.02)
    assert near(found.network.median, BATCH / 0.005)
    assert near(found.together.median, 4 / 0.02)
    assert found.lead == found.all_workers.median / found.network.median
    assert 0.5 < found.waiting < 0.95
    assert len(found.together.rounds) == 5
    assert threading.active_count() == 1


def test_a_network_that_is_fed_waits_for_nothing(network: type[Network]) -> None:
    network.seconds = 0.04
    found = measured(slow_samples(0.01))
    assert near(found.network.median, BATCH / 0.04)
    assert near(found.together.median, BATCH / 0.04)
    assert near(found.one_worker.median, 1 / 0.01)
    assert found.waiting < 0.2


def test_the_first_reading_is_told_from_later_ones(network: type[Network]) -> None:
    found = measured(slow_samples(0.002, first=0.02))
    assert found.distinct == 12
    assert found.first_pass < 1.1 * 4 / 0.02
    assert found.all_workers.median > 2 * found.first_pass


def test_files_that_come_from_storage_are_counted(network: type[Network], tmp_path: Path) -> None:
    file = tmp_path / "block"
    file.write_bytes(os.urandom(1 << 20))
    descriptor = os.open(file, os.O_RDONLY)

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            os.fsync(descriptor)
            if evicted:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.pread(descriptor, 1 << 20, 0)
            yield Sample(np.full((6, 5, 3), position, np.uint8), None, f"image {position}")

    found = {}
    for evicted in (False, True):
        found[evicted] = measured(Samples("file", read, 12, independent=True), workers=1).from_storage
    os.close(descriptor)
    assert found[False] == 0
    if not found[True]:
        pytest.skip("this file system has no storage below it, or does not tell")
    assert 1 << 20 <= found[True] <= 13 << 20


def test_only_what_the_first_reading_had_time_for_is_used(network: type[Network]) -> None:
    found = measured(slow_samples(0.02, count=100_000), workers=1)
    assert BATCH <= found.distinct < 60
    assert found.distinct % BATCH == 0


def test_what_is_stored(network: type[Network]) -> None:
    found = measured(slow_samples(0.004)).images
    assert (found.looked_at, found.short_side) == (12, 5)
    assert 4 <= found.decoding < 8
    assert 0 < found.preprocessing < 2


def test_preprocessed_samples_have_no_size(network: type[Network]) -> None:
    data = np.random.default_rng(0).normal(size=(5, *SHAPE)).astype(np.float32)

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        return (Sample(data[position], 0, "") for position in positions)

    found = measured(Samples("arrays", read, 5), preprocess=None)
    assert found.images.short_side is None
    assert found.distinct == 5


def test_samples_that_do_not_fit_are_refused(network: type[Network]) -> None:
    with pytest.raises(DataError, match="image 0 holds uint8 pixels"):
        measured(slow_samples(0.0), preprocess=None)


def test_rates() -> None:
    assert Rate((3.0, 1.0, 2.0, 10.0, 5.0)).median == 3.0


@pytest.mark.parametrize(
    ("decoding", "network", "verdict"),
    [
        ((5.0, 9.0, 7.0), (4.9, 1.0, 2.0), "fed"),
        ((4.9, 1.0, 2.0), (5.0, 9.0, 7.0), "starved"),
        ((5.0, 9.0, 9.0), (5.1, 1.0, 1.0), "not distinguishable"),
        ((5.1, 1.0, 1.0), (5.0, 9.0, 9.0), "not distinguishable"),
        ((5.0, 9.0), (5.0, 1.0), "not distinguishable"),
        ((1.0, 9.0), (4.0, 5.0), "not distinguishable"),
    ],
)
def test_there_is_a_verdict_where_no_round_speaks_against_it(
    decoding: tuple[float, ...], network: tuple[float, ...], verdict: str
) -> None:
    rates = {"one_worker": Rate(decoding), "all_workers": Rate(decoding), "network": Rate(network)}
    found = Feed(Images(1, 5, 1.0, 1.0), 9, 1, 1, 1.0, None, together=Rate(network), waiting=0.0, **rates)
    assert found.verdict == verdict


def test_the_engine_takes_the_batches(engine: None) -> None:
    found = measured(slow_samples(0.001), workers=2)
    assert found.network.median > 0 and found.together.median < 2.1 / 0.001
