"""Running a Graph on the installed engine, exactly as it stands: no fusion of the engine's own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import RLock
from typing import Any, Optional

import numpy as np

from quantkit.backends.base import Inputs, Session, Shape
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.support import int8_obstacle
from quantkit.errors import EngineError, ModelError
from quantkit.formats.mxnet import nnvm
from quantkit.host.memory import available_memory
from quantkit.host.process import OwnProcess
from quantkit.ir.attribute_bounds import attribute_problem
from quantkit.ir.graph import Graph, Tensor
from quantkit.ir.operators import AUXILIARY_INPUTS
from quantkit.ir.stand_ins import float_stand_in, integer_problem
from quantkit.ir.tensor_bounds import is_delicate, size_problem, tensor_problem

# Of what an executor tells of itself: what lives at once shares no memory, the rest does.
_ALLOCATED = re.compile(r"^Total (\d+) MB allocated$", re.MULTILINE)

# MXNet binds and first runs networks with shared state of its own: threads must take turns, whatever they run.
_ENGINE = RLock()


def _renew_lock() -> None:
    """The thread that holds the lock does not come along into a forked process, where the engine itself starts anew."""
    global _ENGINE
    _ENGINE = RLock()


# A fork waits until no run is under way: in the child nobody would give back the locks that it holds inside the engine.
os.register_at_fork(
    before=lambda: _ENGINE.acquire(), after_in_parent=lambda: _ENGINE.release(), after_in_child=_renew_lock
)


@contextmanager
def stock_fusion_off() -> Iterator[None]:
    """Keep MXNet from fusing operators when it binds a network, whatever the user's environment says.

    Its fusion is on by default and changes the result of pre-activation ResNets. The backend
    ``default`` fuses nothing; ``NONE`` neither, but logs a line for each network.
    """
    wanted = {"MXNET_SUBGRAPH_BACKEND": "default", "MXNET_SUBGRAPH_VERBOSE": "0"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def failures() -> tuple[type[Exception], ...]:
    """What MXNet raises: for a failure in C++ whose message begins with the name of an error of Python's, that one."""
    error: type[Exception] = load_mxnet().base.MXNetError
    return (error, AttributeError, IndexError, NotImplementedError, TypeError, ValueError, MemoryError)


@contextmanager
def engine_errors(what: str) -> Iterator[None]:
    """Turn MXNet's errors into an EngineError that says what it could not do, without its C++ stack."""
    mxnet = load_mxnet()
    try:
        yield
    except failures() as error:
        raise EngineError(f"MXNet {mxnet.__version__} cannot {what}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """The line of MXNet's message that tells; newer releases put the C++ stack first, older ones last."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if "Error" in line or "Check failed" in line), "".join(lines[:1]))


@dataclass(frozen=True, eq=False)
class _Bound:
    """MXNet's executor of a network, and the arrays that it takes its inputs from."""

    inputs: tuple[Any, ...]
    executor: Any


class MxnetSession(Session):
    """A network in MXNet, bound to the shapes of its inputs, and bound again for larger batches; see ``Session``.

    A batch of fewer images than it was first bound to is filled up with copies of its last one, a batch of more to the
    next power of two. A network whose inputs or outputs do not begin with the batch runs in the first shapes alone.
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
        with _ENGINE, engine_errors("bind the network"):
            auxiliary = auxiliary_params(graph)
            given = {name: mxnet.nd.array(value, dtype=value.dtype) for name, value in graph.params.items()}
            self._graph, self._symbol = graph, symbol_of(graph)
            self._args = {name: value for name, value in given.items() if name not in auxiliary}
            self._auxiliary = {name: given[name] for name in auxiliary}
        self._bound: dict[tuple[Shape, ...], _Bound] = {}
        if shapes is not None:
            self._bound_to(tuple(tuple(shapes[name]) for name in graph.inputs))

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
        bound = self._bound_to(shapes)
        with _ENGINE, engine_errors("run the network"):
            for array, value in zip(bound.inputs, values):
                array[:] = _filled(value, array.shape)
            try:
                outputs = [output.asnumpy() for output in bound.executor.forward(is_train=False)]
            except failures():
                _finish_primitives()
                raise
        return outputs if shapes == given else [output[: len(values[0])] for output in outputs]

    def _shapes_for(self, given: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """The shapes that inputs of the shapes ``given`` are filled up to."""
        first = next(iter(self._bound), given)
        if given == first:
            return first
        images, most = given[0][:1], first[0][:1]
        for name, shape, known in zip(self._graph.inputs, given, first):
            fits = (shape[:1], known[:1], shape[1:]) == (images, most, known[1:])
            if not fits or not shape or not shape[0]:
                raise EngineError(f"input {name!r} has shape {shape}, bound to {known}")
        size = most[0] if images <= most else 1 << (images[0] - 1).bit_length()
        return tuple((size, *shape[1:]) for shape in given)

    def _bound_to(self, shapes: tuple[Shape, ...]) -> _Bound:
        """The network bound to shapes of its inputs, once for all runs; the parameters are the same for all shapes."""
        if shapes not in self._bound:
            mxnet = load_mxnet()
            with _ENGINE, engine_errors("bind the network"), stock_fusion_off():
                known = {name: value.shape for name, value in self._args.items()}
                check_tensors(self._graph, self._symbol, {**known, **dict(zip(self._graph.inputs, shapes))})
                inputs = tuple(mxnet.nd.zeros(shape) for shape in shapes)
                args = {**self._args, **dict(zip(self._graph.inputs, inputs))}
                self._bound[shapes] = _Bound(inputs, bound(self._symbol, args, self._auxiliary))
        return self._bound[shapes]


def _filled(value: np.ndarray, shape: Shape) -> np.ndarray:
    """The batch with copies of its last image up to a shape."""
    missing = shape[0] - len(value) if shape else 0
    return np.concatenate([value, np.repeat(value[-1:], missing, axis=0)]) if missing else value


def _finish_primitives() -> None:
    """Let MKL-DNN compute what an operator that failed has left to compute, while its network's memory is there.

    MXNet would do so within the next operator that the same thread runs, be that memory freed or not.
    """
    nd = load_mxnet().nd
    ones = nd.ones((1, 1, 1, 1))
    with suppress(*failures()):
        nd.Convolution(ones, ones, kernel=(1, 1), num_filter=1, no_bias=True).wait_to_read()


def _release() -> tuple[int, int, int]:
    major, minor, patch = (int(part) for part in load_mxnet().__version__.split(".")[:3])
    return major, minor, patch


def symbol_of(graph: Graph) -> Any:
    """The graph as an ``mx.sym.Symbol``.

    Raises:
        ModelError: it holds an operator, or a parameter of one, that this engine does not know or must not be given.
    """
    mxnet, release = load_mxnet(), _release()
    for node in graph.nodes:
        if node.op == "gather_nd" and release < (1, 9, 0):
            raise ModelError(
                f"node {node.name!r} (gather_nd): MXNet {mxnet.__version__} does not check the places that it reads; "
                "use quantkit[onednn] (mxnet 1.9.1)"
            )
        if problem := attribute_problem(node.op, node.attrs, len(node.inputs)):
            raise ModelError(f"node {node.name!r} ({node.op}): {problem}")
    # Under the engine's own version it neither upgrades the symbol nor reports that it does.
    try:
        return mxnet.sym.load_json(nnvm.serialize(graph, release[0] * 10000 + release[1] * 100 + release[2]))
    except failures() as error:
        raise ModelError(f"MXNet {mxnet.__version__} cannot read the network: {_reason(error)}") from error


def check_tensors(graph: Graph, symbol: Any, known: Mapping[str, Shape]) -> None:
    """Make sure that the engine survives a network with these shapes of its variables.

    ``symbol`` is the graph's. The types of parameters are those of their arrays, inputs are float32.

    Raises:
        EngineError: a tensor would be too large, or an operator would read or write beyond one.
        mxnet.base.MXNetError: the shapes do not fit the network.
    """
    graph, internals = graph.pruned(), symbol.get_internals()
    _check_integers(graph, known)
    names = set(internals.list_arguments())
    _, found, _ = internals.infer_shape_partial(**{name: shape for name, shape in known.items() if name in names})
    complete = {name: shape for name, shape in zip(internals.list_outputs(), found) if shape and all(shape)}
    problem = size_problem({**complete, **known})
    delicate = tuple(node for node in graph.nodes if is_delicate(node.op))
    if problem is None and delicate:
        tensors = tuple(dict.fromkeys(each for node in delicate for each in (*node.inputs, node.output)))
        inner = [tensor for tensor in tensors if tensor.node in graph.by_name]
        part = symbol_of(graph.with_outputs(inner))
        names = set(part.list_arguments())
        inferred = shapes_of(part, {name: shape for name, shape in known.items() if name in names})
        dtypes = {name: value.dtype for name, value in graph.params.items()} | dict.fromkeys(graph.inputs, np.float32)
        # See ``shapes_of``.
        _, types, _ = part.infer_type_partial(**{name: dtype for name, dtype in dtypes.items() if name in names})
        if inferred is None or None in types:
            raise EngineError("the inputs leave shapes or types of the network open; give the shape it was made for")
        problem = tensor_problem(
            delicate,
            {**{Tensor(name): shape for name, shape in known.items()}, **dict(zip(inner, inferred[1]))},
            {
                **{Tensor(name): np.dtype(dtype) for name, dtype in dtypes.items()},
                **dict(zip(inner, map(np.dtype, types))),
            },
        )
    if problem is not None:
        raise _must_not_run(problem)


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


def shapes_of(symbol: Any, known: Mapping[str, Shape]) -> Optional[tuple[list[Shape], list[Shape], list[Shape]]]:
    """The shapes of a symbol's arguments, outputs and auxiliary states; None where those known leave some open.

    ``Symbol.infer_shape`` does the same, but prints on standard output what it cannot do.

    Raises:
        mxnet.base.MXNetError: the shapes do not fit the network.
    """
    arguments, outputs, states = symbol.infer_shape_partial(**known)
    complete = all(shape and min(shape) > 0 for shape in (*arguments, *outputs, *states))
    return (arguments, outputs, states) if complete else None


def _check_integers(graph: Graph, known: Mapping[str, Shape]) -> None:
    """Keep from MXNet 1.6 what would end the process while shapes are inferred."""
    stand_in = float_stand_in(graph) if _release() < (1, 9, 0) else None
    if stand_in is None:
        return
    symbol = symbol_of(stand_in)
    names = set(symbol.list_arguments())
    _, found, _ = symbol.infer_shape_partial(**{name: shape for name, shape in known.items() if name in names})
    if problem := integer_problem(graph, dict(zip(stand_in.outputs, found))):
        raise _must_not_run(problem)


def _must_not_run(problem: str) -> EngineError:
    return EngineError(f"MXNet must not run the network: {problem}; give other shapes, or change the network")


def check_runs(graph: Graph, shapes: Mapping[str, Shape]) -> None:
    """Make sure that the engine survives a network with these shapes of its inputs, without running it.

    Raises:
        EngineError: see ``check_tensors``, or the shapes do not fit the network.
    """
    with _ENGINE, engine_errors("bind the network"):
        known = {**{name: value.shape for name, value in graph.params.items()}, **shapes}
        check_tensors(graph, symbol_of(graph), known)


def auxiliary_params(graph: Graph) -> frozenset[str]:
    """The names of the parameters that MXNet treats as auxiliary states.

    Raises:
        ModelError: what should be one is no parameter.
    """
    readers = {
        node.inputs[position].node: node for node in graph.nodes for position in AUXILIARY_INPUTS.get(node.op, ())
    }
    if other := sorted(readers.keys() - graph.params.keys()):
        node = readers[other[0]]
        raise ModelError(
            f"{node.op} {node.name!r} takes its moving mean or variance from {other[0]!r}, which is no parameter; "
            "the symbol is damaged or was not exported for inference: export it again"
        )
    return frozenset(readers)


def run(graph: Graph, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Bind the network to the shapes of ``inputs`` and run it once."""
    return MxnetSession(graph).run(inputs)


def infer_shapes(graph: Graph, shapes: Mapping[str, Shape]) -> dict[Tensor, Shape]:
    """The shape of every tensor, given the shapes of the inputs; of outputs that nothing reads only the first.

    Raises:
        EngineError: the shapes do not fit the network.
    """
    read = (tensor for node in graph.nodes for tensor in node.inputs)
    own = (node.output for node in graph.nodes)
    tensors = [tensor for tensor in dict.fromkeys((*own, *read, *graph.outputs)) if tensor.node in graph.by_name]
    with _ENGINE, engine_errors(f"fit input {dict(shapes)} to the network"):
        known = {**{name: value.shape for name, value in graph.params.items()}, **shapes}
        symbol = symbol_of(graph.with_outputs(tensors))
        wanted = set(symbol.list_arguments())
        if problem := size_problem(known):
            raise _must_not_run(problem)
        _check_integers(graph, known)
        inferred = shapes_of(symbol, {name: shape for name, shape in known.items() if name in wanted})
    if inferred is None:
        raise EngineError(
            f"input {dict(shapes)} leaves shapes of the network open; give the input shape it was made for"
        )
    return {**dict(zip(tensors, inferred[1])), **{Tensor(name): shape for name, shape in known.items()}}
