"""Results that several threads share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest

from quantkit.data.held import Held
from quantkit.errors import DataError


def test_threads_share_a_call() -> None:
    calls, begun, may_end = [], Barrier(4), Event()

    def slow(key: int) -> int:
        calls.append(key)
        assert may_end.wait(10)
        return key * 10

    held = Held(slow, 2)

    def ask() -> int:
        begun.wait(10)
        return held(1)

    with ThreadPoolExecutor(3) as pool:
        results = [pool.submit(ask) for _ in range(3)]
        begun.wait(10)
        may_end.set()
        assert [each.result(10) for each in results] == [10, 10, 10]
    assert calls == [1] and held(1) == 10


def test_the_last_results_are_held() -> None:
    calls = []

    def square(key: int) -> int:
        calls.append(key)
        return key * key

    held = Held(square, 2)
    assert [held(key) for key in (1, 2, 2, 1, 3, 2, 1)] == [1, 4, 4, 1, 9, 4, 1]
    assert calls == [1, 2, 3, 1]


def test_a_failure_is_told_to_everyone_who_asks() -> None:
    def fails(key: int) -> int:
        raise DataError(f"no {key}")

    held = Held(fails, 1)
    for _ in range(2):
        with pytest.raises(DataError, match="no 4"):
            held(4)


def test_a_failure_is_not_held() -> None:
    calls = []

    def fails_once(key: int) -> int:
        calls.append(key)
        if len(calls) == 1:
            raise DataError("not yet")
        return key * 10

    held = Held(fails_once, 1)
    with pytest.raises(DataError, match="not yet"):
        held(4)
    assert (held(4), held(4), calls) == (40, 40, [4, 4])
