"""Measuring the data feed with sources and a network whose speeds are known: they take time of a made-up clock."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quantkit.data.batches import Batch, batches
from quantkit.data.preprocess import Preprocess
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError
from quantkit.evaluation import feed, stream_rates
from quantkit.evaluation.feed import Feed, measure_feed
from quantkit.evaluation.stream_rates import Contestant, Images, Rate, in_turns, read_first, steady
from tests.data.test_prefetch import own_threads
from tests.networks import DATA, Builder

SHAPE = (3, 4, 4)
PREPROCESS = Preprocess(None, 4, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
BATCH = 4
SECONDS = 50.0

# A fifth of the time is for the first reading, the rest for five rounds of four turns.
TURN = SECONDS * 0.8 / 20


class Clock:
    """Time that passes only where somebody works."""

    now = 0.0
    asked = 0

    def __call__(self) -> float:
        self.asked += 1
        assert self.asked < 200_000, "nobody works, so this would go on for ever"
        return self.now

    def batches(self, *arguments: Any, workers: int, **options: Any) -> Iterator[Batch]:
        """Batches that so many workers read while the network runs: each is ready when its work has been shared."""
        source = batches(*arguments, workers=0, **options)
        ready = self.now
        while True:
            asked = self.now
            batch = next(source, None)
            if batch is None:
                return
            ready += (self.now - asked) / max(workers, 1)
            self.now = max(asked, ready)
            yield batch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stream_rates, "perf_counter", clock)
    monkeypatch.setattr(feed, "batches", clock.batches)
    return clock


def slow_samples(clock: Clock, again: float, first: float = 0.0, count: int = 12) -> Samples:
    """Images that take ``first`` seconds to read for the first time and ``again`` afterwards."""
    seen: set[int] = set()

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            clock.now += again if position in seen else first or again
            seen.add(position)
            yield Sample(np.full((6, 5, 3), position, np.uint8), None, f"image {position}")

    return Samples("slow", read, count, independent=True)


class Network:
    """Stands in for the engine: every run takes ``seconds`` of the clock."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.seconds, self.runs = clock, 0.1, 0

    def __call__(self, _: object, shapes: Mapping[str, tuple[int, ...]]) -> Network:
        assert shapes == {"data": (BATCH, *SHAPE)}
        return self

    def run(self, inputs: Mapping[str, np.ndarray]) -> None:
        assert inputs["data"].shape == (BATCH, *SHAPE) and inputs["data"].dtype == np.float32
        self.runs += 1
        self.clock.now += self.seconds


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Network:
    network = Network(clock)
    monkeypatch.setattr(feed, "MxnetSession", network)
    return network


def measured(samples: Samples, workers: int = 4, preprocess: Preprocess | None = PREPROCESS) -> Feed:
    b = Builder()
    return measure_feed(b.graph(b.relu("relu", DATA)), samples, preprocess, SHAPE, BATCH, workers, SECONDS)


def near(rate: Rate, limit: float) -> bool:
    """Whether every round has the rate, but for the batch with which a turn begins and that with which it ends."""
    return all(abs(each - limit) <= 2 * BATCH / TURN for each in rate.rounds)


def test_a_network_that_starves(network: Network, clock: Clock) -> None:
    network.seconds = 0.005
    rates = measured(slow_samples(clock, 0.02))
    assert near(rates.one_worker, 1 / 0.02)
    assert near(rates.all_workers, 4 / 0.02)
    assert near(rates.network, BATCH / 0.005)
    assert near(rates.together, 4 / 0.02)
    assert rates.lead == rates.all_workers.median / rates.network.median
    # Four workers read a batch in 20 ms; of these the network runs for 5.
    assert abs(rates.waiting - 0.75) < 2 * 0.02 / TURN
    assert len(rates.together.rounds) == 5


def test_a_network_that_is_fed_waits_for_nothing(network: Network, clock: Clock) -> None:
    network.seconds = 0.04
    rates = measured(slow_samples(clock, 0.01))
    assert near(rates.network, BATCH / 0.04)
    assert near(rates.together, BATCH / 0.04)
    assert near(rates.one_worker, 1 / 0.01)
    assert rates.waiting == 0


def test_the_first_reading_is_told_from_later_ones(network: Network, clock: Clock) -> None:
    rates = measured(slow_samples(clock, 0.002, first=0.02))
    assert rates.distinct == 12
    # One image has been read before, to see what the samples are.
    assert rates.first_pass == pytest.approx(12 * 4 / (11 * 0.02 + 0.002))
    assert near(rates.all_workers, 4 / 0.002)


def test_no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(stream_rates, "perf_counter", clock)
    monkeypatch.setattr(feed, "MxnetSession", network := Network(clock))
    network.seconds = TURN
    measured(slow_samples(clock, 0.01))
    assert own_threads() == []


def test_what_comes_from_storage_is_the_difference(
    network: Network, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for readings, expected in (((1000, 5000), 4000), ((None, None), None)):
        monkeypatch.setattr(stream_rates, "_storage_bytes", iter(readings).__next__)
        assert measured(slow_samples(clock, 0.02)).from_storage == expected


def test_bytes_that_come_from_storage_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "block"
    file.write_bytes(os.urandom(1 << 20))
    descriptor = os.open(file, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    before = stream_rates._storage_bytes()
    os.pread(descriptor, 1 << 20, 0)
    after = stream_rates._storage_bytes()
    os.close(descriptor)
    assert before is not None and after is not None
    # Files in memory, and on some layered file systems, come from no device.
    assert after - before >= (1 << 20 if os.major(file.stat().st_dev) else 0)


def test_only_what_the_first_reading_had_time_for_is_used(network: Network, clock: Clock) -> None:
    rates = measured(slow_samples(clock, 1 / 64, count=100_000), workers=1)
    assert rates.distinct == SECONDS / 5 * 64


def test_what_is_stored(network: Network, clock: Clock) -> None:
    images = measured(slow_samples(clock, 0.004)).images
    assert (images.looked_at, images.short_side) == (12, 5)
    assert images.decoding == pytest.approx(4)
    assert images.preprocessing == 0


def test_preprocessed_samples_have_no_size(network: Network, clock: Clock) -> None:

    data = np.random.default_rng(0).normal(size=(5, *SHAPE)).astype(np.float32)

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            clock.now += 0.1
            yield Sample(data[position], 0, "")

    rates = measured(Samples("arrays", read, 5), preprocess=None)
    assert rates.images.short_side is None
    assert rates.distinct == 5


def test_samples_that_do_not_fit_are_refused(network: Network, clock: Clock) -> None:
    with pytest.raises(DataError, match="image 0 holds uint8 pixels"):
        measured(slow_samples(clock, 0.0), preprocess=None)


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
    measured_feed = Feed(Images(1, 5, 1.0, 1.0), 9, 1, 1, 1.0, None, together=Rate(network), waiting=0.0, **rates)
    assert measured_feed.verdict == verdict


def test_the_engine_takes_the_batches(engine: None, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    executors = []

    class MxnetSession(feed.MxnetSession):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            executors.append(self)

        def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
            clock.now += 0.1
            return super().run(inputs)

    monkeypatch.setattr(feed, "MxnetSession", MxnetSession)
    rates = measured(slow_samples(clock, 0.001), workers=2)
    assert len(executors) == 1
    assert near(rates.network, BATCH / 0.1)


def test_the_first_twenty_images_are_looked_at(network: Network, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow_preparation(sample: Sample, *_: object) -> None:
        clock.now += 0.003 if sample.name == "image 0" else 0.002

    monkeypatch.setattr(feed, "prepare", slow_preparation)
    images = measured(slow_samples(clock, 0.004, count=30)).images
    assert images.looked_at == 20
    assert (images.decoding, images.preprocessing) == (pytest.approx(4), pytest.approx(2))


def test_a_rate_is_that_of_whole_batches(network: Network, clock: Clock) -> None:
    # Exact in binary; a turn is two seconds.
    network.seconds = 0.125
    rates = measured(slow_samples(clock, 1 / 64), workers=1)
    assert rates.network.rounds == (BATCH / 0.125,) * 5
    assert rates.one_worker.rounds == (64.0,) * 5
    # Three warm up; then, alone and over the images, one does in every turn.
    assert network.runs == 3 + 5 * 2 * (1 + TURN / 0.125)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rchar: 5\nread_bytes: 4096\nwrite_bytes: 7\ncancelled_write_bytes: 0\n", 4096),
        ("rchar: 5\nwchar: 6\n", None),
        (None, None),
    ],
)
def test_where_the_system_does_not_tell_nothing_is_told(
    monkeypatch: pytest.MonkeyPatch, text: str | None, expected: int | None
) -> None:
    def read_text(path: Path) -> str:
        assert path == Path("/proc/self/io")
        if text is None:
            raise PermissionError
        return text

    monkeypatch.setattr(Path, "read_text", read_text)
    assert stream_rates._storage_bytes() == expected


def prepared_ahead(clock: Clock, number: int) -> Iterator[SimpleNamespace]:
    """Batches of which so many are ready, and each of the others takes half a second."""
    for place in count():
        clock.now += 0.5 if place >= number else 0
        yield SimpleNamespace(data=np.zeros(BATCH))


def test_what_was_prepared_ahead_does_not_count(clock: Clock) -> None:
    def consume(data: np.ndarray) -> None:
        clock.now += 0.25

    turns = steady(prepared_ahead(clock, 3), consume, 3, 15.0)  # type: ignore[arg-type]
    assert len(turns) == 5
    assert all((turn.rate, turn.waited) == (BATCH / 0.75, 0.5 / 0.75) for turn in turns)


def test_each_turn_has_a_batch(clock: Clock) -> None:
    consumed: list[int] = []
    steady(prepared_ahead(clock, 7), lambda data: consumed.append(len(data)), 7, 0.001)  # type: ignore[arg-type]
    assert len(consumed) == 1 + 5


def test_what_is_read_when_a_stream_is_opened_counts(clock: Clock) -> None:
    def opened() -> Any:
        clock.now += 1.5
        return (SimpleNamespace(data=np.zeros(BATCH)) for _ in range(3))

    assert read_first(opened).rate == 3 * BATCH / 1.5


def test_a_turn_has_a_batch_of_each_worker(clock: Clock) -> None:
    consumed: list[int] = []
    many = Contestant(
        lambda: prepared_ahead(clock, 0),  # type: ignore[arg-type, return-value]
        lambda data: consumed.append(len(data)),
        4,
    )
    in_turns({"many": many}, 0.001)
    assert len(consumed) == 5 * (1 + 4)
