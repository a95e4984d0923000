"""MXNet's profile and the engine's verbose output of a network, operator by operator, from separate processes.

MXNet 1.6 and 1.9 name an event only after the type of its operator. The events can still be told
apart: MXNet's synchronous engine, without bulk execution, runs one operator after the other, and a monitor
callback reports their names in order. The same callback assigns kernels to operators.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, TypeVar

from quantkit.backends.mxnet.checkpoint import write_checkpoint
from quantkit.backends.mxnet.kernels import Kernel, parse
from quantkit.backends.mxnet.profiled_run import EVENTS, NODE_DONE, RUN_BEGINS, WINDOWS
from quantkit.backends.mxnet.subprocesses import environment, module_command
from quantkit.backends.mxnet.support import int8_obstacle
from quantkit.errors import EngineError, ModelError
from quantkit.files.folders import scratch_folder
from quantkit.files.text import MEBIBYTE, read_json
from quantkit.ir.graph import Graph
from quantkit.progress import Tell, untold

_QUIET = {"MKLDNN_VERBOSE": "0", "DNNL_VERBOSE": "0"}
_VERBOSE = {"MKLDNN_VERBOSE": "1", "DNNL_VERBOSE": "1"}
_ONE_BY_ONE = {"MXNET_ENGINE_TYPE": "NaiveEngine", "MXNET_EXEC_BULK_EXEC_INFERENCE": "0"}

_MOST_VERBOSE_RUNS = 9

# A trace has some 100 bytes per operator and run.
_LARGEST_TRACE = 1024 * MEBIBYTE

_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True)
class Event:
    """One execution of an operator: its type, its start (ms from the start of the run) and its duration (ms)."""

    operator: str
    begun: float
    milliseconds: float


@dataclass(frozen=True)
class Run:
    """One forward pass under the profiler; ``milliseconds`` from the call to the finished result."""

    milliseconds: float
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Recording:
    """The profile of a network.

    Attributes:
        plain: ms of each ordinary run, without the profiler.
        runs: the runs under the profiler, operators one by one.
        executed: the names of the nodes in order of execution. Nodes that MXNet need not
            run (a reshape in place) are missing.
        kernels: by name of a node, the engine's kernels for it, in ms for one run.
    """

    plain: tuple[float, ...]
    runs: tuple[Run, ...]
    executed: tuple[str, ...]
    kernels: Mapping[str, tuple[Kernel, ...]]


def record(graph: Graph, shape: tuple[int, ...], runs: Optional[int] = None, tell: Tell = untold) -> Recording:
    """Profile a network of image inputs.

    Args:
        graph: the network, run unchanged.
        shape: of each input, batch first.
        runs: the number of timed and of profiled runs; None for as many as take about 3 s, 5 to 50.
        tell: called with the name of each phase when it begins.

    Raises:
        ModelError: the network has no operators.
        EngineError: the network cannot be run, the engine ends the process, or it records nothing.
        QuantkitError: the disk has no room for a copy of the network.
    """
    if not graph.nodes:
        inputs = " and ".join(map(repr, graph.inputs))
        raise ModelError(
            f"the network has no operators, so there is nothing to profile: it returns its input {inputs}; "
            "give a network that computes something"
        )
    if any(node.attrs.get("quantized") == "true" for node in graph.nodes) and (obstacle := int8_obstacle()):
        raise EngineError(obstacle)
    with scratch_folder() as folder:
        symbol, params = _write_checkpoint(graph, folder)
        common = (str(symbol), str(params), ",".join(map(str, shape)))
        tell("taking the time without the profiler")
        _run(("plain", *common, str(runs or 0), str(folder)), _QUIET)
        plain = _parsed(folder / WINDOWS, _milliseconds)
        tell("recording the operators")
        _run(("events", *common, str(runs or len(plain)), str(folder)), {**_QUIET, **_ONE_BY_ONE})
        windows = _parsed(folder / WINDOWS, _windows)
        profiled = _parsed(folder / EVENTS, lambda trace: runs_of(trace, windows))
        tell("listing the kernels")
        verbose = min(runs or len(plain), _MOST_VERBOSE_RUNS)
        output = _run(("kernels", *common, str(verbose), str(folder)), {**_VERBOSE, **_ONE_BY_ONE})
    if not any(run.events for run in profiled):
        raise EngineError(
            "MXNet's profiler recorded no operator: this engine was built without it (USE_PROFILER=0); "
            "profile with quantkit[onednn] (mxnet 1.9.1)"
        )
    executed, kernels = kernels_by_node(output, graph.by_name)
    return Recording(plain, profiled, executed, kernels)


def runs_of(trace: Mapping[str, Any], windows: Iterable[tuple[int, int]]) -> tuple[Run, ...]:
    """The operators in each window of a trace that MXNet's profiler wrote.

    Args:
        trace: its JSON: events of phase B and E with times in microseconds.
        windows: the start and the end of each run, in ns of the same clock.
    """
    spans = sorted(_pairs(trace["traceEvents"]))
    runs = []
    for begun, end in windows:
        # Times are cut to microseconds, and the next run may begin in the last one: only the end tells them apart.
        inside = [each for each in spans if begun // 1000 <= each[0] and each[1] <= end // 1000]
        events = (
            Event(operator, (first - begun) / 1e6, (last * 1000 - first) / 1e6)
            for start, last, operator in inside
            for first in [max(start * 1000, begun)]
        )
        runs.append(Run((end - begun) / 1e6, tuple(events)))
    return tuple(runs)


def _pairs(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, int, str]]:
    """Start, end and operator of each event; events of one thread nest."""
    open_: dict[Any, list[tuple[int, str]]] = {}
    for event in events:
        if event.get("cat") != "operator":
            continue
        stack = open_.setdefault((event["pid"], event.get("tid")), [])
        if event["ph"] == "B":
            stack.append((int(event["ts"]), str(event["name"])))
        elif event["ph"] == "E" and stack:
            start, name = stack.pop()
            yield start, int(event["ts"]), name


def kernels_by_node(output: str, names: Collection[str]) -> tuple[tuple[str, ...], Mapping[str, tuple[Kernel, ...]]]:
    """The nodes in order of execution and the kernels of each, from verbose output with marks.

    The run with the median time in kernels counts.

    Raises:
        EngineError: a line of the verbose output has an unknown form.
    """
    runs = [_kernels_of_run(text, names) for text in output.split(f"{RUN_BEGINS}\n")[1:]]
    if not runs:
        raise EngineError("the engine's verbose output shows no run, so its kernels are unknown")
    runs.sort(key=lambda run: sum(kernel.milliseconds for kernels in run.values() for kernel in kernels))
    middle = runs[len(runs) // 2]
    return tuple(middle), middle


def _kernels_of_run(text: str, names: Collection[str]) -> dict[str, tuple[Kernel, ...]]:
    kernels: dict[str, tuple[Kernel, ...]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith(NODE_DONE):
            lines.append(line)
        elif (node := _owner(line[len(NODE_DONE) :], names)) not in kernels:
            # An operator is marked once for each of its outputs.
            kernels[node] = parse("\n".join(lines))
            lines = []
    return kernels


def _owner(output: str, names: Collection[str]) -> str:
    """The node of an output, which MXNet names by the node's name, an underscore and the output's name."""
    candidate = output
    while candidate and candidate not in names:
        candidate = candidate.rpartition("_")[0]
    return candidate or output


def _write_checkpoint(graph: Graph, folder: Path) -> tuple[Path, Path]:
    symbol, params = folder / "network-symbol.json", folder / "network-0000.params"
    with symbol.open("wb") as text, params.open("wb") as arrays:
        write_checkpoint(graph, text, arrays)
    return symbol, params


def _run(arguments: Iterable[str], settings: Mapping[str, str]) -> str:
    done = subprocess.run(
        module_command("quantkit.backends.mxnet.profiled_run", *arguments),
        env=environment(**settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise EngineError(
            f"the engine ended the process that ran the network ({name}); `quantkit doctor` shows whether it "
            "suits this processor, and memory may be short"
        )
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
        raise EngineError(f"{said[-1]}; `quantkit doctor` shows whether the engine suits this processor")
    return done.stdout


def _milliseconds(document: Any) -> tuple[float, ...]:
    """The duration of each run."""
    return tuple((end - begun) / 1e6 for begun, end in _windows(document))


def _windows(document: Any) -> list[tuple[int, int]]:
    """The start and the end of each run."""
    windows = [(int(begun), int(end)) for begun, end in document]
    if not windows:
        raise ValueError("it records no run")
    return windows


def _parsed(path: Path, parse_document: Callable[[Any], _Parsed]) -> _Parsed:
    """The content of a JSON file that the process that ran the network wrote."""
    try:
        return parse_document(read_json(path, _LARGEST_TRACE))
    except (OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise EngineError(
            f"MXNet's profiler wrote no readable trace ({error}); is there space left in {path.parent.parent}?"
        ) from error
