"""The page of the cluster's efficiency."""

from __future__ import annotations

import os
from typing import Any

import pytest

from quantkit.errors import QuantkitError

HOST = {"cpu": "a processor", "vnni": "no", "mxnet": "1.9.1", "python": "3.11.7", "threads": "all", "cores": "2"}


def timed(workers: int, number: int, seconds: float, apart: bool = False) -> dict[str, Any]:
    return {
        "work": "calibrate",
        "samples": 100,
        "workers": workers,
        "round": number,
        "seconds": seconds,
        "busy": float(workers),
        "apart": apart,
    }


def test_efficiency_is_the_speed_up_for_each_worker() -> None:
    from cluster_efficiency import page

    alone = [timed(1, number, seconds) for number, seconds in enumerate((10.0, 11.0, 9.0))]
    together = [timed(2, number, seconds) for number, seconds in enumerate((6.0, 5.0, 5.5))]
    apart = [timed(2, number, seconds, True) for number, seconds in enumerate((12.0, 10.0, 10.5))]
    lines = page({"command": "it", "host": HOST, "runs": [*apart, *together, *alone]}).splitlines()
    assert lines[-2:] == [
        "| calibrate | 100 | 1 | 10.00 | 10 | 1.00 |  |  | 1.0 |",
        "| calibrate | 100 | 2 | 5.50 | 18 | 1.82 | 91 % [82, 110] | 95 % [83, 110] | 2.0 |",
    ]


def test_each_worker_needs_a_core() -> None:
    from cluster_efficiency import workers_of_one_core

    before = os.sched_getaffinity(0)
    with pytest.raises(QuantkitError, match="1000 workers need as many cores"), workers_of_one_core(range(1000)):
        pass
    assert os.sched_getaffinity(0) == before
