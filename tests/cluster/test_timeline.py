"""What is told of a cluster's work."""

from __future__ import annotations

import pytest

from quantkit.cluster.timeline import Timeline, timeline
from quantkit.cluster.worker import Work


def work(worker: str, began: float, ended: float) -> Work:
    return Work("counting", 100, 4, worker, "host", began, ended)


def test_the_busy_share_is_that_of_all_slots() -> None:
    done = [work("a", 10, 12), work("b", 10, 13), work("a", 12, 18), work("b", 14, 16)]
    found = timeline(done, 2)
    assert found == Timeline(4, 2, 8.0, pytest.approx(13 / 16), pytest.approx(6 / 2.5), 400, 16)
    assert found.text == (
        "4 shards on 2 workers in 8.0 s, 0.0 kB came back; workers were busy 81.2 % of the time, "
        "the slowest shard took 2.4 times the median"
    )


def test_shards_that_took_no_time() -> None:
    assert timeline([work("a", 10, 10)], 1) == Timeline(1, 1, 0.0, 1.0, 1.0, 100, 4)
