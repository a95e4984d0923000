"""Instances that exchange gradients through MXNet's parameter server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from quantkit.backends.mxnet.calls import engine_calls
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.training.buckets import gradient_buckets, trainer_through

# The keys from 0 on are those of buckets; these are of all other values.
_FIRST_KEY = 1 << 20


class KVStore:
    """Instances in step (``dist_sync``).

    The server adds up; each instance applies the sum by itself, so that all have the same parameters and the same state
    of the optimizer.
    """

    compress = False

    def __init__(self) -> None:
        """Wait for all instances.

        Raises:
            EngineError: this process was not started as one of them.
        """
        with engine_calls("reach the parameter server"):
            self._store = load_mxnet().kv.create("dist_sync")
        self.rank, self.instances = int(self._store.rank), int(self._store.num_workers)
        self._keys: dict[tuple[int, ...], int] = {}

    def trainer(self, params: Mapping[str, Any], optimizer: str, options: Mapping[str, Any]) -> Any:
        """See ``Communication``."""
        buckets = gradient_buckets(params)
        with engine_calls("tell the parameter server of the gradients"):
            for key, bucket in enumerate(buckets):
                self._store.init(key, bucket)

        def add_up() -> None:
            for key, bucket in enumerate(buckets):
                self._store.pushpull(key, bucket, out=bucket)

        return trainer_through(add_up, params, optimizer, options)

    def all_reduce(self, values: np.ndarray) -> np.ndarray:
        """See ``Communication``."""
        nd = load_mxnet().nd
        with engine_calls("exchange values with other instances"):
            array = nd.array(values, dtype="float32")
            if values.shape not in self._keys:
                self._keys[values.shape] = _FIRST_KEY + len(self._keys)
                self._store.init(self._keys[values.shape], nd.zeros(values.shape))
            self._store.pushpull(self._keys[values.shape], array, out=array)
            total: np.ndarray = array.asnumpy()
        return total

    def barrier(self) -> None:
        """See ``Communication``."""
        with engine_calls("wait for other instances"):
            self._store._barrier()

    def leave(self) -> None:
        """See ``Communication``."""
        self.barrier()
