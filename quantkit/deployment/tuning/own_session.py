"""A bundle's network as an engine runs it by itself, with its own settings and one call for each request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from threading import Lock

import numpy as np

from quantkit.backends.registry import MXNET, ONNXRUNTIME, OPENVINO
from quantkit.benchmark.measuring.dispatch import Serve
from quantkit.bundle.bundle import Bundle
from quantkit.bundle.file_names import lstm_form
from quantkit.deployment.network import RunningNetwork, open_network
from quantkit.errors import UserError


@dataclass(frozen=True)
class OwnSession:
    """A loaded network: ``caller(place, data)`` runs a batch as the caller of that number.

    ``parallel`` is how many callers the engine serves at a time.
    """

    caller: Callable[[int, np.ndarray], Serve]
    parallel: int = 1


def own_session(bundle: Bundle, engine: str, mode: str) -> OwnSession:
    """Load a bundle's network.

    Args:
        bundle: the bundle; its ONNX file for engines that read such.
        engine: the engine's name.
        mode: ``default``; for OpenVINO one of its performance hints.

    Raises:
        UserError: the bundle holds no ONNX file, and the engine needs one.
        QuantkitError: the engine does not load it.
    """
    if engine == MXNET.name:
        return _mxnet(open_network(bundle, engine))
    content = bundle.onnx(lstm_form(engine))
    if content is None:
        raise UserError(f"{bundle.directory} holds no ONNX file")
    return _onnxruntime(content) if engine == ONNXRUNTIME.name else _openvino(content, mode, bundle.sample.input)


def _mxnet(network: RunningNetwork) -> OwnSession:
    """Callers take turns: MXNet runs a bound network once at a time."""
    turn = Lock()

    def run(data: np.ndarray) -> object:
        with turn:
            return network.run(data)

    return OwnSession(lambda place, data: lambda: run(data))


def _onnxruntime(content: bytes) -> OwnSession:
    session = ONNXRUNTIME.library().InferenceSession(content, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return OwnSession(lambda place, data: lambda: session.run(None, {name: data}))


def _openvino(content: bytes, mode: str, sample: np.ndarray) -> OwnSession:
    """Each caller has an infer request of its own, as OpenVINO's asynchronous queue does."""
    openvino = OPENVINO.library()
    core = openvino.Core()
    hint = {} if mode == "default" else {"PERFORMANCE_HINT": mode}
    compiled = core.compile_model(core.read_model(BytesIO(content)), "CPU", hint)
    # If its first runs in a process are at the same time, it may wait for ever; see ``stream_pool``.
    compiled.create_infer_request().infer({0: sample})
    requests: dict[int, object] = {}

    def caller(place: int, data: np.ndarray) -> Serve:
        if place not in requests:
            requests[place] = compiled.create_infer_request()
        request = requests[place]
        return lambda: request.infer({0: data}, share_inputs=True)  # type: ignore[attr-defined]

    return OwnSession(caller, int(compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")))
