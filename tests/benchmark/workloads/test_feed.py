"""What a measurement of feeding means: the remedies that go with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

import pytest

from quantkit.benchmark.workloads.feed import advice
from quantkit.data.preprocess import Preprocess
from quantkit.evaluation.feed import Feed
from quantkit.evaluation.stream_rates import Images, Rate

PREPROCESS = Preprocess(256, 224, (0, 0, 0), (1, 1, 1))


def feed(
    one: float = 100,
    every: float = 400,
    network: float = 300,
    together: float = 290,
    first: float = 390,
    side: int = 300,
    stored: Optional[int] = 10**6,
) -> Feed:
    one_, every_, network_, together_ = (
        Rate((rate * 0.99, rate, rate * 1.01)) for rate in (one, every, network, together)
    )
    return Feed(Images(20, side, 5.0, 1.0), 400, 8, 4, first, stored, one_, every_, network_, together_, 0.1)


def test_a_fed_network_needs_no_advice() -> None:
    assert feed().verdict == "fed"
    assert advice(feed(), PREPROCESS) == []


def test_a_starved_network_is_told_the_remedies() -> None:
    found = advice(feed(network=1250, together=390), PREPROCESS)
    assert len(found) == 2
    assert found[0].startswith("at least 13 decoding workers would have to run at once")
    assert ".npz" in found[1]


def test_fewer_workers_than_there_are_need_no_mention() -> None:
    starved = feed(one=100, every=150, network=300, together=150)
    assert not any("workers" in each for each in advice(starved, PREPROCESS))


@pytest.mark.parametrize(("side", "named"), [(380, False), (1200, True)])
def test_oversized_images_are_named(side: int, named: bool) -> None:
    found = advice(feed(network=1250, together=390, side=side), PREPROCESS)
    assert any("short side is 1200 pixels, 256 are needed" in each for each in found) == named


@pytest.mark.parametrize("preprocess", [None, replace(PREPROCESS, resize=None, crop=None)])
def test_nothing_is_needed_where_nothing_is_resized(preprocess: Optional[Preprocess]) -> None:
    assert not any("short side" in each for each in advice(feed(network=1250, together=390, side=5000), preprocess))


def test_arrays_cannot_be_decoded_faster() -> None:
    starved = feed(network=1250, together=390)
    assert advice(replace(starved, images=replace(starved.images, short_side=None)), None) == []


@pytest.mark.parametrize(("first", "words"), [(250, "too few for the network"), (310, "enough for the network")])
def test_a_cold_first_reading_is_told(first: float, words: str) -> None:
    (found,) = advice(feed(first=first), PREPROCESS)
    assert f"with 1.0 MB from storage, gave {first} images/s, {words}; cached files gave 400" in found
    assert ".rec" in found


def test_what_is_not_images_is_called_samples() -> None:
    cold, slow = advice(replace(feed(first=250, together=150), waiting=0.1), None, "sample")
    assert "gave 250 samples/s" in cold and cold.endswith("cached files gave 400")
    assert "waited for samples 10.0 % of the time" in slow


@pytest.mark.parametrize("stored", [0, None])
def test_a_slow_first_reading_of_cached_files_is_not_blamed_on_storage(stored: Optional[int]) -> None:
    assert advice(feed(first=250, stored=stored), PREPROCESS) == []


@pytest.mark.parametrize(("waiting", "longer"), [(0.1, "1.8"), (0.5, "1")])
def test_of_a_slow_common_run_only_the_figures_are_told(waiting: float, longer: str) -> None:
    (found,) = advice(replace(feed(together=150), waiting=waiting), PREPROCESS)
    assert found.startswith("both at once reach 50.0 % of what the slower one reaches alone: ")
    assert f"waited for images {100 * waiting:.1f} % of the time, and its runs took {longer} times as long" in found


def test_a_common_run_as_fast_as_the_slower_one_alone_needs_no_advice() -> None:
    starved = feed(every=150, network=300, together=145)
    assert not any("both at once" in each for each in advice(starved, PREPROCESS))


def test_no_remedies_where_the_network_may_not_starve() -> None:
    found = replace(feed(network=1250, together=390), all_workers=Rate((400.0, 400.0, 1260.0)))
    assert found.verdict == "not distinguishable"
    assert advice(found, PREPROCESS) == []
