"""The engine's peak rate of multiply-accumulates on this machine, in INT8 and in FP32.

As a program (see ``subprocesses``), it runs large convolutions in each precision and writes the best rates to the file
that it is given.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
from pydantic import PositiveFloat, TypeAdapter

from quantkit.backends.mxnet.calls import engine_errors, stock_fusion_off
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.subprocesses import environment, module_command
from quantkit.backends.mxnet.support import int8_obstacle
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.errors import EngineError
from quantkit.files.folders import scratch_folder
from quantkit.files.text import read_json
from quantkit.host.timing import durations
from quantkit.ir.graph import Graph, Node, Tensor

# Large enough for full speed, small enough for the caches and for many repetitions.
_CONVOLUTIONS = ((256, 28), (512, 28))  # channels, height and width
_SECONDS = 1.0
_FEWEST = 3


@dataclass(frozen=True)
class Peak:
    """Measured peaks in 10^9 multiply-accumulates a second; ``int8`` is None if INT8 cannot run."""

    int8: Optional[PositiveFloat]
    fp32: PositiveFloat


def measured_peak() -> Peak:
    """The best rates of this machine with the engine's number of threads; takes a few seconds.

    They are those of 3x3 convolutions, of unsigned with signed INT8 and of FP32, whose operands stay in the
    caches; the fastest of many runs counts. They run in a separate process.

    Raises:
        EngineError: the engine fails.
    """
    with scratch_folder() as folder:
        file = folder / "peak.json"
        done = subprocess.run(
            module_command("quantkit.backends.mxnet.peak", str(file)),
            env=environment(MKLDNN_VERBOSE="0", DNNL_VERBOSE="0"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
            raise EngineError(
                f"the engine failed while its peak was measured (exit status {done.returncode}): {said[-1]}; "
                "`quantkit doctor` shows whether it suits this processor"
            )
        try:
            return TypeAdapter(Peak).validate_python(read_json(file))
        except (OSError, ValueError) as error:
            raise EngineError(f"the process that measured the engine's peak left no rates ({error})") from error


def main(file: str) -> None:
    """Measure in this process and write the result as JSON."""
    with engine_errors("measure its peak"):
        int8 = None if int8_obstacle() else max(_rates(int8=True))
        Path(file).write_text(json.dumps(asdict(Peak(int8, max(_rates(int8=False))))))


def _rates(int8: bool) -> Iterator[float]:
    for channels, side in _CONVOLUTIONS:
        # Padding keeps the size; each value of the result is a sum over a 3x3 window of all channels.
        count = (channels * side) ** 2 * 9
        yield count / _fastest(_convolution(channels, side, int8)) / 1e9


def _convolution(channels: int, side: int, int8: bool) -> Any:
    """A bound 3x3 convolution, INT8 to INT8 or FP32 to FP32, as in quantkit's bundles."""
    mxnet = load_mxnet()
    names = ("data", "weight", "low", "high") if int8 else ("data", "weight")
    inputs = tuple(map(Tensor, names))
    attrs = {"num_filter": str(channels), "kernel": "(3, 3)", "pad": "(1, 1)", "no_bias": "True"}
    core = Node("convolution", "Convolution", inputs[:2], attrs)
    fused = {"quantized": "true", "min_calib_range": "-1.0", "max_calib_range": "1.0"} if int8 else {}
    node = Node("fused", "_sg_mkldnn_conv", inputs, fused, body=Graph((core,), names[:2], (core.output,)))
    random = np.random.RandomState(0)
    values = {"data": random.randint(0, 256, (1, channels, side, side)), "low": [0.0], "high": [1.0]}
    values["weight"] = random.uniform(-1, 1, (channels, channels, 3, 3))
    types = {"data": "uint8" if int8 else "float32"}
    arrays = {name: mxnet.nd.array(values[name], dtype=types.get(name, "float32")) for name in names}
    with stock_fusion_off():
        return symbol_of(Graph((node,), names, (node.output,))).bind(mxnet.cpu(), args=arrays, grad_req="null")


def _fastest(bound: Any) -> float:
    """The duration of the fastest run, in seconds."""
    mxnet = load_mxnet()

    def run() -> None:
        bound.forward(is_train=False)
        mxnet.nd.waitall()

    return min(durations(run, _SECONDS, _FEWEST))


if __name__ == "__main__":
    main(*sys.argv[1:])
