"""The kernels that the engine runs, and their instruction sets, read from its verbose output."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from quantkit.backends.mxnet.subprocesses import environment, module_command
from quantkit.backends.mxnet.verbose_run import SECOND_RUN
from quantkit.errors import EngineError

# Lines of MKL-DNN 1.0 and oneDNN 2 begin alike: PREFIX,exec,cpu,PRIMITIVE,IMPLEMENTATION,PROPAGATION,TENSORS; of the
# fields that follow, oneDNN has one more, for attributes, and the time is last in both.
_PREFIXES = ("mkldnn_verbose", "dnnl_verbose", "onednn_verbose")
# Recurrent layers name the tensors of their states (iter) after those that they read and write (layer).
_TENSOR = re.compile(r"(src|data|wei|dst)_(?:layer_)?(\w+?):")
_ISA = re.compile(r"(?:sse|avx|amx)\w*")

_COMPLAINT = re.compile(r"Error: (?!Traceback)|Xbyak::Error|Check failed")

_COMPUTE = ("convolution", "deconvolution", "inner_product", "matmul", "rnn")


@dataclass(frozen=True)
class Kernel:
    """All calls of one kind in a run: ``count`` of them, which take ``milliseconds`` together.

    ``implementation`` is the engine's name for it, such as ``brgconv:avx512_core_vnni``; ``isa`` is the
    instruction set in that name, empty if it has none (matrix products by ``gemm``). ``source`` and
    ``weights`` are data types in the engine's short form (``u8``, ``s8``, ``f32``), empty if there are none;
    ``destination`` is that of the result.
    """

    primitive: str
    implementation: str
    source: str
    weights: str
    isa: str
    count: int
    milliseconds: float
    destination: str = ""

    @property
    def is_int8(self) -> bool:
        """Whether it multiplies INT8 activations with INT8 weights."""
        return self.source in ("u8", "s8") and self.weights == "s8"


def kernels_of(
    symbol: Path, params: Path, *input_shapes: tuple[int, ...], batch: int = 1, timeout: float = 300.0
) -> tuple[Kernel, ...]:
    """Run a checkpoint and list its kernels.

    It runs in a separate process, so that an engine that aborts does not end the caller, and with MXNet's own
    fusion off. Operators that MXNet computes without oneDNN do not appear. ``input_shapes`` are those of the inputs, in
    their order, without the batch axis.

    Raises:
        EngineError: the network cannot be run, the engine ends the process, or it takes over ``timeout`` seconds.
    """
    shapes = ";".join(",".join(map(str, (batch, *shape))) for shape in input_shapes)
    command = module_command("quantkit.backends.mxnet.verbose_run", str(symbol), str(params), shapes)
    env = environment(MKLDNN_VERBOSE="1", DNNL_VERBOSE="1")
    try:
        done = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"{symbol} did not finish one run within {timeout:g} s; is the machine busy?") from error
    if done.returncode != 0:
        raise EngineError(
            f"the engine failed on {symbol} (exit status {done.returncode}): {_reason(done.stderr)}; "
            "`quantkit doctor` shows whether it suits this processor"
        )
    return parse(done.stdout.partition(SECOND_RUN)[2])


def parse(output: str) -> tuple[Kernel, ...]:
    """The kernels in the verbose output of MKL-DNN 1.0 or oneDNN 2, one per kind of call, in order of first call.

    Raises:
        EngineError: a line of the verbose output has another form.
    """
    kernels: dict[tuple[str, ...], Kernel] = {}
    for line in output.splitlines():
        fields = line.split(",")
        if fields[0] not in _PREFIXES or fields[1:2] != ["exec"]:
            continue
        kernel = _kernel(fields, line)
        key = (kernel.primitive, kernel.implementation, kernel.source, kernel.weights, kernel.destination)
        before = kernels.get(key)
        kernels[key] = kernel if before is None else replace(
            before, count=before.count + 1, milliseconds=before.milliseconds + kernel.milliseconds
        )  # fmt: skip
    return tuple(kernels.values())


def int8_isa(kernels: Iterable[Kernel]) -> tuple[str, ...]:
    """The instruction sets that INT8 convolutions and dense layers were proven to run on, sorted."""
    return tuple(sorted({kernel.isa for kernel in kernels if kernel.is_int8 and kernel.isa}))


def int8_share(kernels: Iterable[Kernel]) -> tuple[int, int]:
    """The number of INT8 calls among those that multiply (convolutions, dense layers, matrices), and of all these."""
    calls = [(kernel.count, kernel.is_int8) for kernel in kernels if kernel.primitive in _COMPUTE]
    return sum(count for count, int8 in calls if int8), sum(count for count, _ in calls)


def _kernel(fields: list[str], line: str) -> Kernel:
    try:
        primitive, implementation, tensors = fields[3], fields[4], fields[6]
        milliseconds = float(fields[-1])
        if not isfinite(milliseconds):
            raise ValueError("a time that is not finite")
    except (IndexError, ValueError) as error:
        raise EngineError(f"the engine's verbose output has an unknown form: {line!r}") from error
    types: dict[str, str] = {}
    for role, dtype in _TENSOR.findall(tensors):
        types.setdefault("src" if role == "data" else role, "" if dtype == "undef" else dtype)
    isa = _ISA.search(implementation)
    return Kernel(
        primitive,
        implementation,
        source=types.get("src", ""),
        weights=types.get("wei", ""),
        isa=isa.group() if isa else "",
        count=1,
        milliseconds=milliseconds,
        destination=types.get("dst", ""),
    )


def _reason(stderr: str) -> str:
    """The last message of a failed process that is neither code nor a stack trace."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    telling = [line for line in lines if _COMPLAINT.search(line)]
    return (telling or lines or ["it said nothing"])[-1]
