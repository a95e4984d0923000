"""What instances exchange."""

from __future__ import annotations

import hashlib

import numpy as np

from quantkit.training.communication import Alone, all_have
from tests.training.conftest import coloured
from tests.training.test_feed import feed


class WithOther(Alone):
    """An instance beside another one, whose values are given."""

    instances = 2

    def __init__(self, other: bytes) -> None:
        self._other = np.frombuffer(other[:16], np.uint8).astype(np.float32)

    def total(self, values: np.ndarray) -> np.ndarray:
        return values + self._other


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
