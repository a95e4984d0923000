"""What is printed at the end of a training."""

from __future__ import annotations

from quantkit.cli.training_summary import cost_rows, early_rows, speed_rows, trained_row
from quantkit.training.epoch import Epoch
from quantkit.training.feed_workers import FeedWorkers


def epochs(waited: float, number: int = 2) -> list[Epoch]:
    return [Epoch(place, 0.5, 0.1, 60.0, 3000, waited, None) for place in range(1, number + 1)]


def test_what_is_trained_on_how_long() -> None:
    assert trained_row(epochs(0), 5, "photos") == ("trained", "2 epochs of 5 on photos")
    assert trained_row(epochs(0, 1), 1, "photos") == ("trained", "1 epoch of 1 on photos")


def test_an_early_end_is_told() -> None:
    assert early_rows(epochs(0), 2, 3) == []
    assert early_rows(epochs(0), 5, 3) == [("", "stopped early: nothing better for 3 epochs")]


def test_speed_and_what_would_end_the_waiting() -> None:
    speed, feed, time = speed_rows(epochs(0.6), FeedWorkers(2, scale=True))
    assert speed == ("speed", "50.0 images/s")
    assert feed == ("feed", "1.0 % of the time waiting for data")
    assert time == ("time", "2.0 minutes of training")
    hint = "about --workers {} would keep up, on as many free processors"
    for number, enough in ((2, 4), (0, 1), (200, 256)):
        assert speed_rows(epochs(30), FeedWorkers(number, scale=True))[2] == ("", hint.format(enough))
    assert speed_rows(epochs(54), FeedWorkers(0, scale=True))[2] == ("", hint.format(9))
    for workers in (None, FeedWorkers(2, scale=False)):
        assert len(speed_rows(epochs(30), workers)) == 3


def test_the_cost_is_that_of_the_run() -> None:
    assert cost_rows(None, 0) == []
    assert cost_rows(1.25, 0) == [("cost", "1.2500")]
    assert cost_rows(1.25, 3) == [("cost", "1.2500 of this run")]
