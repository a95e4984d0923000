"""What instances exchange."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import numpy as np

from quantkit.training.communication import Alone, all_gather, all_have
from tests.training.conftest import coloured
from tests.training.test_feed import feed


class WithOther(Alone):
    """An instance beside another one, whose values are given."""

    instances = 2

    def __init__(self, other: bytes) -> None:
        self._other = np.frombuffer(other[:16], np.uint8).astype(np.float32)

    def all_reduce(self, values: np.ndarray) -> np.ndarray:
        return values + self._other


Result = TypeVar("Result")


class InThreads(Alone):
    """An instance beside others, each of them a thread."""

    def __init__(self, rank: int, values: list[np.ndarray], barrier: Barrier) -> None:
        self.rank, self.instances, self._values, self._barrier = rank, len(values), values, barrier

    def all_reduce(self, values: np.ndarray) -> np.ndarray:
        self._values[self.rank] = values
        self._barrier.wait(30)
        total: np.ndarray = np.sum(self._values, axis=0, dtype=np.float32)
        self._barrier.wait(30)
        return total


def of_instances(number: int, function: Callable[[InThreads], Result]) -> list[Result]:
    """What a function gives in each of so many instances."""
    barrier, values = Barrier(number), [np.empty(0)] * number
    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(lambda rank: function(InThreads(rank, values, barrier)), range(number)))


def test_what_each_instance_has_comes_to_all_by_their_numbers() -> None:
    own = [np.arange(256, dtype=np.uint8), np.empty(0, np.uint8), np.full(300, 255, np.uint8)]
    for told in of_instances(3, lambda one: all_gather(one, own[one.rank])):
        assert [each.tolist() for each in told] == [own[0].tolist(), own[2].tolist()]
    assert of_instances(2, lambda one: all_gather(one, own[1])) == [[], []]
    (alone,) = all_gather(Alone(), own[0])
    assert alone.dtype == np.uint8 and np.array_equal(alone, own[0])


def test_digests_are_compared() -> None:
    one, other = (hashlib.sha256(text).digest() for text in (b"one", b"other"))
    assert all_have(Alone(), one) and all_have(WithOther(one), one) and not all_have(WithOther(other), one)


def test_a_single_bit_is_seen() -> None:
    one = bytes(32)
    for place in range(16):
        assert not all_have(WithOther(one[:place] + b"\1" + one[place + 1 :]), one)


def test_samples_have_a_digest() -> None:
    first, again, other = (feed(coloured(24, seed)).digest(8) for seed in (0, 0, 1))
    assert first == again != other
    assert feed(coloured(27)).digest(8) != first
