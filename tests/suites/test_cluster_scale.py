"""What a scheduler bears, and the model of many workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.requirements import requires

HOST = {"cpu": "a processor", "vnni": "no", "mxnet": "1.9.1", "python": "3.11.7", "threads": "all", "cores": "2"}
SCHEDULER = {"tasks": 1000, "seconds": 5.0, "cpu_seconds": 4.0, "wire": 8_000_000}


def test_empty_tasks_go_through_a_real_scheduler() -> None:
    requires("cluster")
    from cluster_scale import empty_tasks

    found = empty_tasks(40)
    assert found.tasks == 40 and found.seconds > 0 and found.cpu_seconds > 0
    # At least the results have come over the loopback.
    assert found.wire > 40 * 4096


def test_the_slowest_part_is_the_bottleneck() -> None:
    from cluster_scale import Scheduler, times

    scheduler = Scheduler(**SCHEDULER)
    few = times(50_000, 200, 8, 0.1, scheduler, 196)
    assert few.computing == pytest.approx(50_000 * 200 * 0.1 / 8) and few.scheduling == pytest.approx(200 * 196 / 200)
    # Weights are in 1, 2, 4, 8, 16 places.
    assert few.sending == pytest.approx(200 * 4 * 0.08)
    assert few.bottleneck == "computing" and few.total == pytest.approx(few.computing + few.sending)
    fast = times(50_000, 200, 10_000, 0.001, replace(scheduler, seconds=5000.0), 196)
    assert fast.bottleneck == "scheduler" and fast.total == pytest.approx(fast.scheduling + fast.sending)


def test_the_page_checks_the_model_against_two_workers() -> None:
    from cluster_scale import page

    def timed(workers: int, seconds: float) -> dict[str, Any]:
        return {"work": "calibrate squeezenet1.0", "samples": 100, "workers": workers, "seconds": seconds}

    efficiency = [timed(1, 10.0), timed(2, 90.0) | {"apart": True}, timed(2, 5.5)]
    text = page({"command": "it", "host": HOST, "scheduler": SCHEDULER, "efficiency": efficiency})
    assert "bore 1000 empty tasks at 200 tasks/s, with 4.0 ms of the processor" in text and "8.0 kB on the wire" in text
    assert "calibrate squeezenet1.0 with 2 workers: 5.0 s by the model, 5.5 s measured" in text
    # Each network is 1873 shards there, for which 200 tasks/s take as long as 534 workers for 50,000 images at 0.1 s.
    assert "more tasks than it bears from 534 workers on" in text
    assert [line.split(" | ")[0] for line in text.splitlines()[-3:]] == ["| 8", "| 64", "| 512"]
