"""Profile: a row for each layer, sums by operator, and what the time was spent on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import median
from typing import Optional

from quantkit.backends.mxnet.kernels import Kernel
from quantkit.backends.mxnet.peak import Peak
from quantkit.backends.mxnet.profiler import Recording
from quantkit.diagnosis.profile.attribution import Times, attribute
from quantkit.diagnosis.profile.layers import CONVERSIONS, Layer
from quantkit.ir.graph import Graph, Node

_INTEGERS = ("u8", "s8")
_COPIES = frozenset(
    {
        *(
            "Concat",
            "CopyCPU2CPU",
            "Flatten",
            "Pad",
            "Reshape",
            "SliceChannel",
            "SwapAxis",
            "UpSampling",
            "_copy",
            "expand_dims",
        ),
        *("repeat", "reverse", "slice", "slice_axis", "stack", "tile", "transpose"),
        *("_contrib_quantized_concat", "_contrib_quantized_flatten"),
    }
)


@dataclass(frozen=True)
class Row:
    """One layer: ``nodes`` compute its ``macs`` multiply-accumulates in ``milliseconds`` of one run.

    ``kernels`` are the engine's; their times are scaled down to fit those of their operators. ``int8`` tells whether
    the layer multiplies in INT8, ``peak`` is what the machine reaches in that precision (GMAC/s).
    """

    layer: Layer
    nodes: tuple[str, ...]
    milliseconds: float
    macs: int
    kernels: tuple[Kernel, ...]
    int8: bool
    peak: Optional[float]

    @property
    def kernel(self) -> Optional[Kernel]:
        """The kernel that takes longest, a reorder only if there is no other; None if MXNet uses no kernel."""
        return max(self.kernels, key=lambda each: (each.primitive != "reorder", each.milliseconds), default=None)

    @property
    def gmacs(self) -> Optional[float]:
        """10^9 multiply-accumulates per second; None if there are none."""
        return _rate(self.macs, self.milliseconds)

    @property
    def of_peak(self) -> Optional[float]:
        """The speed as a share of the machine's measured peak in this precision."""
        return self.gmacs / self.peak if self.gmacs is not None and self.peak else None


@dataclass(frozen=True)
class Spent:
    """What the time of one run was spent on, in ms; the parts add up to the run.

    Attributes:
        int8: kernels on INT8 data.
        floating: kernels on other data.
        conversions: quantizing, requantizing and dequantizing.
        reorders: the engine's changes of layout.
        copies: operators that only move values.
        around: operators that use kernels, outside of their kernels.
        own: other operators that MXNet computes without the engine's kernels.
        others: operators that no node is known to own.
        between: outside of operators: the engine schedules, or waits.
    """

    int8: float
    floating: float
    conversions: float
    reorders: float
    copies: float
    around: float
    own: float
    others: float
    between: float


@dataclass(frozen=True)
class Profile:
    """Where the time of one run goes.

    ``latency`` is the median of runs without the profiler. ``times`` are those of runs under the profiler; the rows
    divide them by layer. ``skipped`` are nodes that the engine did not run. All times are in ms.
    """

    batch: int
    latency: float
    times: Times
    rows: tuple[Row, ...]
    operators: Mapping[str, tuple[int, float]]
    spent: Spent
    isa: tuple[str, ...]
    skipped: tuple[str, ...]
    peak: Peak

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one run."""
        return sum(row.macs for row in self.rows)

    @property
    def gmacs(self) -> Optional[float]:
        """10^9 multiply-accumulates per second, without the profiler."""
        return _rate(self.macs, self.latency)

    @property
    def of_peak(self) -> Optional[float]:
        """The time that all layers would take at their precision's peak, as a share of the latency."""
        at_peak = sum(row.macs / (row.peak * 1e6) for row in self.rows if row.macs and row.peak)
        return at_peak / self.latency if at_peak else None


def profile(
    graph: Graph,
    recording: Recording,
    layers: Mapping[str, Layer],
    macs: Mapping[str, int],
    peak: Peak,
    batch: int,
) -> Profile:
    """Make the profile of a recording.

    Args:
        graph: the network that was recorded.
        recording: the recording.
        layers: the layer of each node (``layers_of``).
        macs: the multiply-accumulates of each node (``quantkit.ir.macs.macs``).
        peak: the peak of the machine.
        batch: the number of images in a run.
    """
    times = attribute(recording, graph)
    kernels = {name: _fitted(recording.kernels.get(name, ()), spent) for name, spent in times.nodes.items()}
    grouped: dict[Layer, list[str]] = {}
    # Where no time can be attributed, the multiply-accumulates of the nodes are known all the same.
    for name in times.nodes or [name for name in recording.executed if name in layers]:
        grouped.setdefault(layers[name], []).append(name)
    rows = tuple(
        _row(layer, [graph.by_name[name] for name in names], times, macs, kernels, peak)
        for layer, names in grouped.items()
    )
    operators: dict[str, tuple[int, float]] = {}
    for name, spent in times.nodes.items():
        count, before = operators.get(graph.by_name[name].op, (0, 0.0))
        operators[graph.by_name[name].op] = (count + 1, before + spent)
    calls = [kernel for each in kernels.values() for kernel in each]
    return Profile(
        batch,
        median(recording.plain),
        times,
        rows,
        operators,
        _spent(times, kernels, {node.name: node.op for node in graph.nodes}),
        tuple(sorted({kernel.isa for kernel in calls if kernel.is_int8 and kernel.isa})),
        tuple(node.name for node in graph.nodes if node.name not in recording.executed),
        peak,
    )


def _row(
    layer: Layer,
    nodes: Sequence[Node],
    times: Times,
    macs: Mapping[str, int],
    kernels: Mapping[str, tuple[Kernel, ...]],
    peak: Peak,
) -> Row:
    own = tuple(kernel for node in nodes for kernel in kernels.get(node.name, ()))
    count = sum(macs.get(node.name, 0) for node in nodes)
    int8 = any(kernel.is_int8 for kernel in own) or any(node.attrs.get("quantized") == "true" for node in nodes)
    reached = (peak.int8 if int8 else peak.fp32) if count else None
    spent = sum(times.nodes.get(node.name, 0.0) for node in nodes)
    return Row(layer, tuple(node.name for node in nodes), spent, count, own, int8, reached)


def _fitted(kernels: Sequence[Kernel], milliseconds: float) -> tuple[Kernel, ...]:
    """The kernels of an operator, scaled to take no longer than it did: they were timed in other runs."""
    together = sum(kernel.milliseconds for kernel in kernels)
    factor = min(1.0, milliseconds / together) if together else 1.0
    return tuple(replace(kernel, milliseconds=kernel.milliseconds * factor) for kernel in kernels)


def _spent(times: Times, kernels: Mapping[str, Sequence[Kernel]], operators: Mapping[str, str]) -> Spent:
    by_kind: defaultdict[str, float] = defaultdict(float)
    for name, milliseconds in times.nodes.items():
        whole = kind_of_operator(operators[name])
        if whole:
            by_kind[whole] += milliseconds
            continue
        for kernel in kernels[name]:
            by_kind[_kind(kernel)] += kernel.milliseconds
        rest = milliseconds - sum(kernel.milliseconds for kernel in kernels[name])
        by_kind["around" if kernels[name] else "own"] += rest
    by_kind["others"] = sum(times.others.values(), 0.0)
    by_kind["between"] = times.between
    return Spent(**{part.name: by_kind[part.name] for part in fields(Spent)})


def kind_of_operator(operator: str) -> str:
    """What all the time of an operator is spent on, kernels or not; empty if that depends on its kernels."""
    return "conversions" if operator in CONVERSIONS else "copies" if operator in _COPIES else ""


def _kind(kernel: Kernel) -> str:
    if kernel.primitive == "reorder":
        return "conversions" if kernel.destination and kernel.destination != kernel.source else "reorders"
    return "int8" if kernel.source in _INTEGERS else "floating"


def _rate(macs: int, milliseconds: float) -> Optional[float]:
    return macs / milliseconds / 1e6 if macs and milliseconds else None
