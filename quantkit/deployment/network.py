"""A bundle's network in any engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Optional

import numpy as np

from quantkit.backends.base import Session, sole_input
from quantkit.backends.one_input import with_one_input
from quantkit.backends.registry import DEPLOYED, MXNET, ONNX_ENGINES, ONNXRUNTIME, unknown_engine
from quantkit.bundle.bundle import Bundle
from quantkit.bundle.file_names import lstm_form
from quantkit.data.preprocess import Preprocess
from quantkit.errors import BundleError, EngineMissing, UserError
from quantkit.lowering.input_quantizer import InputQuantizer, input_quantizer

AUTO = "auto"
"""In place of an engine's name: the fastest engine."""

Run = Callable[[np.ndarray], list[np.ndarray]]
Step = Callable[[np.ndarray, Mapping[str, np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True, eq=False)
class RunningNetwork:
    """A network in an engine; one thread at a time may use it.

    ``run`` takes a batch of any size, float32 or what ``quantizer`` makes of it, and returns all outputs of the
    network. It raises BundleError if these do not match the bundle's manifest. ``step`` does the same from given states
    by the names of their inputs; None where the network has none. ``quantizer`` is that of an input that is made of
    pixels; None where it is read as float32.
    """

    engine: str
    run: Run
    step: Optional[Step] = None
    quantizer: Optional[InputQuantizer] = None


def open_network(bundle: Bundle, engine: str) -> RunningNetwork:
    """Load a bundle's network in one of the ``DEPLOYED`` engines.

    Raises:
        UserError: there is no such engine, or it needs an ONNX file and the bundle holds none.
        EngineMissing: the engine is not installed.
        EngineError: the engine cannot run the network on this processor.
        BundleError: symbol and parameters are not a network.
    """
    if known_engine(engine) == MXNET.name:
        deployed, data = bundle.deployed, bundle.manifest.input
        session = MXNET.backend().open_session(deployed.network(bundle.graph), deployed.shapes(data.name, data.shape))
    else:
        session = ONNX_ENGINES[engine].backend().open_session(_onnx(bundle, engine))
    return _running(bundle, engine, session)


def open_streams(bundle: Bundle, engine: str, number: int, threads: int) -> list[RunningNetwork]:
    """Load a bundle's network so that it runs ``number`` times at once in this process, with so many threads each.

    Raises:
        UserError: there is no such engine, it cannot do so, or it needs an ONNX file and the bundle holds none.
        QuantkitError: see ``open_network``.
    """
    if not DEPLOYED[known_engine(engine)].backend().has_streams:
        with_streams = [each.title for each in DEPLOYED.values() if each.backend().has_streams]
        raise UserError(f"{DEPLOYED[engine].title} has no streams; use instances, or {' or '.join(with_streams)}")
    sessions = ONNX_ENGINES[engine].backend().open_streams(_onnx(bundle, engine), number, threads)
    return [_running(bundle, engine, session) for session in sessions]


def _running(bundle: Bundle, engine: str, session: Session) -> RunningNetwork:
    deployed = bundle.deployed
    name = sole_input(with_one_input(session, deployed))

    def step(batch: np.ndarray, given: Optional[Mapping[str, np.ndarray]]) -> list[np.ndarray]:
        return _checked(bundle, session.run(deployed.values(name, batch, given)), len(batch))

    of_pixels = engine == MXNET.name and isinstance(bundle.preparation, Preprocess)
    quantizer = input_quantizer(deployed.network(bundle.graph), name) if of_pixels else None
    return RunningNetwork(engine, lambda batch: step(batch, None), step if deployed.states else None, quantizer)


def _onnx(bundle: Bundle, engine: str) -> bytes:
    content = bundle.onnx(lstm_form(engine))
    if content is None:
        raise UserError(
            f"{ONNX_ENGINES[engine].title} runs ONNX files, and {bundle.directory} holds none; "
            'write it with `quantkit quantize --format mxnet,onnx`, in Python with save(..., formats=("mxnet", "onnx"))'
        )
    return content


def _checked(bundle: Bundle, outputs: list[np.ndarray], batch: int) -> list[np.ndarray]:
    """The outputs for a batch, as the bundle's manifest has them."""
    wanted = [(batch, *output.shape) for output in bundle.manifest.outputs]
    if [output.shape for output in outputs] != wanted or any(output.dtype != np.float32 for output in outputs):
        computed = ", ".join(f"{output.dtype} {output.shape}" for output in outputs)
        raise BundleError(
            f"the network of bundle {bundle.directory} computes {computed} where the manifest says "
            f"{', '.join(f'float32 {shape}' for shape in wanted)}; write the bundle again"
        )
    return outputs


def known_engine(engine: str) -> str:
    """The name of a ``DEPLOYED`` engine, as it is.

    Raises:
        UserError: there is no such engine.
    """
    if not isinstance(engine, str) or engine not in DEPLOYED:
        raise unknown_engine(engine, (*DEPLOYED, AUTO))
    return engine


def usable_engines(bundle: Bundle) -> dict[str, str]:
    """The versions of the installed engines that can run the bundle, by name, the preferred one first."""
    versions = {}
    for name, engine in DEPLOYED.items():
        if name in ONNX_ENGINES and not bundle.holds_onnx:
            continue
        backend = engine.backend()
        with suppress(EngineMissing):
            version = backend.version()
            if bundle.manifest.kind == "fp32" or not backend.int8_obstacle():
                versions[name] = version
    return versions


def default_engine(bundle: Bundle) -> str:
    """MXNet if it is installed, else the first installed engine that can run the bundle.

    Raises:
        EngineMissing: there is none.
    """
    try:
        MXNET.backend().version()
    except EngineMissing as error:
        usable = next(iter(usable_engines(bundle)), None)
        if usable is not None:
            return usable
        other = (
            f"or {ONNXRUNTIME.title} for the bundle's ONNX file: pip install 'quantkit[{ONNXRUNTIME.extras[0]}]'"
            if bundle.holds_onnx
            else "the bundle holds no ONNX file that other engines could run"
        )
        raise EngineMissing(f"{error}; {other}") from error
    return MXNET.name
