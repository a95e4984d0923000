"""An aggregation that takes its time, so that something can happen to its worker; its engine process imports this."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from quantkit.data.aggregation import Partial
from quantkit.data.batches import Batch


@dataclass(frozen=True)
class Counting:
    """The sum of all numbers; ``seconds`` for each shard, and for ever in the process that makes the file ``trap``.

    It writes the name of its host there.
    """

    seconds: float = 0.3
    trap: str = ""

    def key(self) -> str:
        return "counting"

    def partial(self, batches: Iterable[Batch]) -> Partial:
        time.sleep(3600 if self._is_caught() else self.seconds)
        return {"sum": np.array(sum(int(batch.data.sum()) for batch in batches))}

    def _is_caught(self) -> bool:
        try:
            if self.trap:
                with open(self.trap, "x", encoding="utf-8") as file:
                    file.write(socket.gethostname())
            return bool(self.trap)
        except FileExistsError:
            return False

    def combine(self, partials: Sequence[Partial]) -> int:
        return sum(int(part["sum"]) for part in partials)
