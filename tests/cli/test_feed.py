"""``benchmark --test-io``: its verdict, its advice, and what it prints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Optional

import pytest

from quantkit.cli.feed import advice, run_test_io
from quantkit.cli.terminal import Terminal
from quantkit.cli.work import Work
from quantkit.data.preprocess import Preprocess
from quantkit.errors import DataError
from quantkit.evaluation.feed import Feed, Images, Rate

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
    assert not feed().starved
    assert advice(feed(), PREPROCESS) == []


def test_a_starved_network_is_told_the_remedies() -> None:
    found = advice(feed(network=1250, together=390), PREPROCESS)
    assert len(found) == 2
    assert found[0].startswith("about 13 decoding workers would keep up")
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
    assert words in found and ".rec" in found


@pytest.mark.parametrize("stored", [0, None])
def test_a_slow_first_reading_of_cached_files_is_not_blamed_on_storage(stored: Optional[int]) -> None:
    assert advice(feed(first=250, stored=stored), PREPROCESS) == []


def test_shared_cores_are_told() -> None:
    (found,) = advice(feed(together=150), PREPROCESS)
    assert found.startswith("both at once reach 50.0 % of the network alone")


def measure(terminal: Terminal, checkpoint: Path, samples: Path) -> None:
    run_test_io(terminal, str(checkpoint), str(samples), 4, "auto", (3, 16, 16), seconds=0.5)


def test_the_result_as_json(checkpoint: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure(Terminal(Work(), json=True, quiet=True), checkpoint, samples)
    result = json.loads(capsys.readouterr().out)
    assert (result["network"], result["kind"], result["batch"], result["images"]) == ("tiny", "fp32", 4, 23)
    rates = result["images_per_second"]
    assert set(rates) == {"first_pass", "one_worker", "all_workers", "network", "together"}
    for rate in (rates[name] for name in rates if name != "first_pass"):
        assert len(rate["rounds"]) == 5
        assert 0 < rate["low"] <= rate["median"] <= rate["high"]
    lead = rates["all_workers"]["median"] / rates["network"]["median"]
    assert result["decoded_per_read"] == pytest.approx(lead)
    assert result["verdict"] == ("starved" if lead < 1 else "fed")
    assert result["short_side"] is None


def test_the_result_in_words(checkpoint: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure(Terminal(Work()), checkpoint, samples)
    printed = capsys.readouterr()
    assert "tiny (FP32) over 23 images of samples.npz" in printed.out
    assert "FP32 network, batch 4" in printed.out
    assert ("FED: " in printed.out) != ("STARVED: " in printed.out)
    assert "decoding samples.npz" in printed.err


def test_data_that_do_not_exist(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no sample data"):
        measure(Terminal(Work(), quiet=True), checkpoint, tmp_path / "nothing")
