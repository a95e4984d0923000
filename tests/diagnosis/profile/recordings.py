"""Small recordings and the networks that they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from quantkit.backends.mxnet.kernels import Kernel
from quantkit.backends.mxnet.profiler import Event, Recording, Run
from quantkit.ir.graph import Graph, Node, Tensor

NODES = (("conv", "Convolution"), ("relu", "Activation"), ("more", "Convolution"))
GRAPH = Graph(
    tuple(Node(name, op, (Tensor(before),)) for (name, op), before in zip(NODES, ("data", "conv", "relu"))),
    ("data",),
    (Tensor("more"),),
)
NAMES = tuple(name for name, _ in NODES)
OPERATORS = tuple(op for _, op in NODES)


def run(total: float, times: Sequence[float], operators: Sequence[str] = OPERATORS) -> Run:
    """A run of operators that follow each other after 1 ms."""
    begun, events = 1.0, []
    for operator, time in zip(operators, times):
        events.append(Event(operator, begun, time))
        begun += time
    return Run(total, tuple(events))


def kernel(
    milliseconds: float, source: str = "f32", primitive: str = "convolution", destination: str = "f32"
) -> Kernel:
    """A kernel call of one kind."""
    weights = "" if primitive == "reorder" else "s8" if source == "u8" else "f32"
    name, isa = "brgconv:avx512_core_vnni", "avx512_core_vnni"
    return Kernel(primitive, name, source, weights, isa, 1, milliseconds, destination)


def recording(
    *runs: Run, executed: Sequence[str] = NAMES, kernels: Optional[Mapping[str, tuple[Kernel, ...]]] = None
) -> Recording:
    """A recording of ``GRAPH`` whose runs without the profiler took 9, 10 and 50 ms."""
    return Recording((9.0, 50.0, 10.0), runs, tuple(executed), kernels or {})
