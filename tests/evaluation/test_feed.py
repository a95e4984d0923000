"""Measuring the data feed with sources and a network whose speeds are known: they take time of a made-up clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from quantkit.data.preprocess import Preprocess
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError
from quantkit.evaluation import feed, stream_rates
from quantkit.evaluation.feed import Feed, measure_feed
from quantkit.evaluation.stream_rates import Images, Rate
from tests.data.test_prefetch import own_threads
from tests.evaluation.conftest import Clock
from tests.networks import DATA, Builder

SHAPE = (3, 4, 4)
PREPROCESS = Preprocess(None, 4, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
BATCH = 4
SECONDS = 50.0

# A fifth of the time is for the first reading, the rest for five rounds of four turns.
TURN = SECONDS * 0.8 / 20


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
