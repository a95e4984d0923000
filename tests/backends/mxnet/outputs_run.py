"""Read outputs of convolutions, and print the numbers of this process's threads before and after as JSON."""

from __future__ import annotations

import json
import os

import numpy as np

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.execute import MxnetSession
from tests.networks import DATA, Builder


def threads() -> int:
    """How many this process has."""
    return len(os.listdir("/proc/self/task"))


b = Builder()
flat, maps = (b.conv(name, DATA, 3, 16) for name in ("flat", "maps"))
data = np.ones((1, 3, 64, 64), np.float32)
MxnetSession(b.graph(b.op("Flatten", "rows", flat))).run({"data": data})
before = threads()
MxnetSession(b.graph(maps)).run({"data": data})
print(json.dumps({"before": before, "after": threads(), "asked": load_mxnet().base._LIB.omp_get_max_threads()}))
