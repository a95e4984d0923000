"""Running a Graph on the installed engine, exactly as it stands: no fusion of the engine's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from quantkit.backends.base import Inputs, Session, Shape
from quantkit.backends.mxnet.calls import engine_calls, failures, forks, stock_fusion_off
from quantkit.backends.mxnet.capabilities import outlives_forks
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.input_memory import InputMemory
from quantkit.backends.mxnet.instructions import prepare_instructions
from quantkit.backends.mxnet.outputs import values_of
from quantkit.backends.mxnet.shapes import check_tensors
from quantkit.backends.mxnet.support import int8_obstacle
from quantkit.backends.mxnet.symbols import auxiliary_params, symbol_of
from quantkit.errors import EngineError
from quantkit.host.memory import available_memory
from quantkit.host.process import OwnProcess
from quantkit.ir.graph import Graph, Tensor

# Of what an executor tells of itself: what lives at once shares no memory, the rest does.
_ALLOCATED = re.compile(r"^Total (\d+) MB allocated$", re.MULTILINE)

_FLOATS = "float32"
_INTEGERS = {np.dtype(name): name for name in ("int8", "uint8")}


@dataclass(frozen=True, eq=False)
class _Bound:
    """MXNet's executor of a network, and where it takes its inputs from."""

    inputs: tuple[InputMemory, ...]
    executor: Any


class MxnetSession(Session):
    """A network in MXNet, bound to the shapes of its inputs, and bound again for larger batches; see ``Session``.

    A batch of fewer images than it was first bound to is filled up with copies of its last one, a batch of more to the
    next power of two. A network whose inputs or outputs do not begin with the batch runs in the first shapes alone.
    An input that the network only quantizes may be integers, which its quantize operators hand on as they are; the
    network is bound to them apart.
    Several threads may use several sessions: the engine itself works for one at a time.
    """

    def __init__(self, graph: Graph, shapes: Optional[Mapping[str, Shape]] = None) -> None:
        """Load a network and bind it to the shapes of its inputs; without them it is bound by its first run.

        Raises:
            EngineError: the engine does not accept the network or the shapes.
            ModelError: see ``symbol_of`` and ``auxiliary_params``.
        """
        mxnet = load_mxnet()
        self._process = OwnProcess()
        if any(node.attrs.get("quantized") == "true" for node in graph.nodes) and (obstacle := int8_obstacle()):
            raise EngineError(obstacle)
        prepare_instructions(graph)
        with engine_calls("bind the network"):
            auxiliary = auxiliary_params(graph)
            given = {name: mxnet.nd.array(value, dtype=value.dtype) for name, value in graph.params.items()}
            self._graph, self._symbol = graph, symbol_of(graph)
            self._args = {name: value for name, value in given.items() if name not in auxiliary}
            self._auxiliary = {name: given[name] for name in auxiliary}
        self._quantized = frozenset(
            name
            for name in graph.inputs
            if {node.op for node in graph.consumers.get(Tensor(name), ())} == {"_contrib_quantize_v2"}
        )
        self._bound: dict[tuple[tuple[Shape, ...], tuple[str, ...]], _Bound] = {}
        self._first: Optional[tuple[Shape, ...]] = None
        self._forks = forks()
        if shapes is not None:
            self._bound_to(tuple(tuple(shapes[name]) for name in graph.inputs), (_FLOATS,) * len(graph.inputs))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the network's inputs."""
        return self._graph.inputs

    def run(self, inputs: Inputs) -> list[np.ndarray]:
        """See ``Session``."""
        self._process.check("the network")
        values = [inputs[name] for name in self._graph.inputs]
        given = tuple(value.shape for value in values)
        shapes = self._shapes_for(given)
        types = tuple(
            _INTEGERS.get(value.dtype, _FLOATS) if name in self._quantized else _FLOATS
            for name, value in zip(self._graph.inputs, values)
        )
        with engine_calls("run the network"):
            bound = self._bound_to(shapes, types)
            for memory, value in zip(bound.inputs, values):
                memory.write(value)
            try:
                outputs = values_of(bound.executor.forward(is_train=False))
            except failures():
                _finish_primitives()
                raise
        return outputs if shapes == given else [output[: len(values[0])] for output in outputs]

    def _shapes_for(self, given: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """The shapes that inputs of the shapes ``given`` are filled up to."""
        first = self._first or given
        if given == first:
            return first
        images, most = given[0][:1], first[0][:1]
        for name, shape, known in zip(self._graph.inputs, given, first):
            fits = (shape[:1], known[:1], shape[1:]) == (images, most, known[1:])
            if not fits or not shape or not shape[0]:
                raise EngineError(f"input {name!r} has shape {shape}, bound to {known}")
        size = most[0] if images <= most else 1 << (images[0] - 1).bit_length()
        return tuple((size, *shape[1:]) for shape in given)

    def _bound_to(self, shapes: tuple[Shape, ...], types: tuple[str, ...]) -> _Bound:
        """The network bound to shapes and types of its inputs; the parameters are the same for all."""
        if self._forks != forks():
            self._forks = forks()
            if not outlives_forks():
                self._bound.clear()
        if (shapes, types) not in self._bound:
            mxnet = load_mxnet()
            with engine_calls("bind the network"), stock_fusion_off():
                known = {name: value.shape for name, value in self._args.items()}
                check_tensors(self._graph, self._symbol, {**known, **dict(zip(self._graph.inputs, shapes))})
                inputs = [mxnet.nd.zeros(shape, dtype=dtype) for shape, dtype in zip(shapes, types)]
                executor = bound(self._symbol, {**self._args, **dict(zip(self._graph.inputs, inputs))}, self._auxiliary)
                self._bound[shapes, types] = _Bound(tuple(map(InputMemory, inputs)), executor)
                self._first = self._first or shapes
        return self._bound[shapes, types]


def _finish_primitives() -> None:
    """Let MKL-DNN compute what an operator that failed has left to compute, while its network's memory is there.

    MXNet would do so within the next operator that the same thread runs, be that memory freed or not.
    """
    nd = load_mxnet().nd
    ones = nd.ones((1, 1, 1, 1))
    with suppress(*failures()):
        nd.Convolution(ones, ones, kernel=(1, 1), num_filter=1, no_bias=True).wait_to_read()


def bound(symbol: Any, args: Mapping[str, Any], auxiliary: Mapping[str, Any]) -> Any:
    """MXNet's executor of a symbol, which has room for its tensors but has not touched it.

    Raises:
        EngineError: there is not as much memory.
        mxnet.base.MXNetError: the arguments do not fit the symbol.
    """
    mxnet = load_mxnet()
    executor = symbol.bind(mxnet.cpu(), args=args, aux_states=auxiliary, grad_req="null")
    told = _ALLOCATED.search(executor.debug_str())
    if told is None:
        raise EngineError(f"MXNet {mxnet.__version__} does not tell how much memory the network takes")
    needed, available = int(told[1]), available_memory()
    if available is not None and needed > available >> 20:
        raise EngineError(
            f"MXNet must not run the network: its tensors take {needed} MiB, and {available >> 20} MiB of memory are "
            "free; give a smaller batch or input, or free memory"
        )
    return executor


def run(graph: Graph, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Bind the network to the shapes of ``inputs`` and run it once."""
    return MxnetSession(graph).run(inputs)
