"""How instances that train a network together exchange what they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from quantkit.backends.mxnet.compat import load_mxnet


class Communication(Protocol):
    """The instances of a training, as one of them sees them.

    Attributes:
        rank: the number of this one, from 0.
        instances: how many there are.
        compress: whether gradients are sent as float16.
    """

    rank: int
    instances: int
    compress: bool

    def trainer(self, params: Mapping[str, Any], optimizer: str, options: Mapping[str, Any]) -> Any:
        """A Gluon ``Trainer`` of parameters, by name, whose steps add up the gradients of all instances."""

    def all_reduce(self, values: np.ndarray) -> np.ndarray:
        """The sum over all instances of float32 values; each must call this with values of the same shape."""

    def barrier(self) -> None:
        """Return when all instances have come here."""

    def leave(self) -> None:
        """Meet for the last time; nothing is exchanged afterwards."""


def all_have(communication: Communication, digest: bytes) -> bool:
    """Whether all instances have the same digest, of at least 16 bytes; each must call this."""
    own = np.frombuffer(digest[:16], np.uint8).astype(np.float32)
    return bool(np.array_equal(communication.all_reduce(own), communication.instances * own))


def all_gather(communication: Communication, content: np.ndarray) -> list[np.ndarray]:
    """What those instances have that have anything, by their numbers, uint8 of one axis; each must call this."""
    # Lengths go byte by byte, as float32 is exact up to 2**24 alone.
    lengths = np.zeros((communication.instances, 8), np.float32)
    lengths[communication.rank] = np.array([len(content)], "<u8").view(np.uint8)
    ends = np.cumsum(communication.all_reduce(lengths).astype(np.uint8).view("<u8")[:, 0], dtype=np.int64)
    if not ends[-1]:
        return []
    values = np.zeros(ends[-1], np.float32)
    end = ends[communication.rank]
    values[end - len(content) : end] = content
    found = np.split(communication.all_reduce(values).astype(np.uint8), ends[:-1])
    return [each for each in found if len(each)]


class Alone:
    """One instance, which has nobody to exchange anything with."""

    rank = 0
    instances = 1
    compress = False

    def trainer(self, params: Mapping[str, Any], optimizer: str, options: Mapping[str, Any]) -> Any:
        """See ``Communication``."""
        return load_mxnet().gluon.Trainer(dict(params), optimizer, dict(options), kvstore=None)

    def all_reduce(self, values: np.ndarray) -> np.ndarray:
        """See ``Communication``."""
        return values

    def barrier(self) -> None:
        """See ``Communication``."""

    def leave(self) -> None:
        """See ``Communication``."""
