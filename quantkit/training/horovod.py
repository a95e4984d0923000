"""Instances that exchange gradients through Horovod."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from quantkit.backends.mxnet.calls import engine_calls
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.deployment.child_messages import LOADING_PATIENCE
from quantkit.errors import EngineError
from quantkit.extras import using
from quantkit.training.buckets import gradient_buckets, trainer_through

_LOOK_EVERY = 0.1


class Horovod:
    """Instances that add up gradients in a ring, by Gloo's allreduce (Sergeev and Del Balso, arXiv:1802.05799).

    Each has the sum, and applies it by itself.
    """

    def __init__(self, compress: bool, cycle: float) -> None:
        """Wait for all instances.

        Args:
            compress: send gradients as float16.
            cycle: milliseconds between two negotiations of which gradients are ready; what users have set stands.

        Raises:
            ExtraMissing: Horovod is not installed.
            EngineError: nobody answers at the rendezvous.
        """
        load_mxnet()
        with using("horovod", "trainings through Horovod"):
            import horovod.mxnet
        _wait_for_rendezvous()
        # Horovod reads it when it starts.
        os.environ.setdefault("HOROVOD_CYCLE_TIME", f"{cycle:.1f}")
        self._horovod, self.compress = horovod.mxnet, compress
        with engine_calls("reach the other instances"):
            self._horovod.init()
        self.rank, self.instances = int(self._horovod.rank()), int(self._horovod.size())

    def trainer(self, params: Mapping[str, Any], optimizer: str, options: Mapping[str, Any]) -> Any:
        """See ``Communication``."""
        buckets = gradient_buckets(params)

        def add_up() -> None:
            for number, bucket in enumerate(buckets):
                sent = bucket.astype("float16") if self.compress else bucket
                self._horovod.allreduce_(sent, op=self._horovod.Sum, name=f"bucket {number}")
                if self.compress:
                    bucket[:] = sent.astype("float32")

        return trainer_through(add_up, params, optimizer, options)

    def all_reduce(self, values: np.ndarray) -> np.ndarray:
        """See ``Communication``."""
        with engine_calls("exchange values with other instances"):
            array = load_mxnet().nd.array(values, dtype="float32")
            name = f"total of {'x'.join(map(str, values.shape))}"
            total: np.ndarray = self._horovod.allreduce(array, op=self._horovod.Sum, name=name).asnumpy()
        return total

    def barrier(self) -> None:
        """See ``Communication``."""
        self.all_reduce(np.zeros(1, np.float32))

    def leave(self) -> None:
        """See ``Communication``."""
        self.barrier()
        # One that is ended without it makes the others complain.
        self._horovod.shutdown()


def _wait_for_rendezvous() -> None:
    """Return when the rendezvous answers: Horovod asks once."""
    address = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
    deadline = time.monotonic() + LOADING_PATIENCE
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(address, timeout=_LOOK_EVERY):
            return
        time.sleep(_LOOK_EVERY)
    raise EngineError(
        f"nobody answered at the rendezvous {address[0]}:{address[1]} for {LOADING_PATIENCE:.0f} s; start machine 0, "
        "and let the others reach this port"
    )
