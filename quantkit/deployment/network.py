"""A bundle's network in any engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from quantkit.backends.base import Session, sole_input
from quantkit.backends.registry import DEPLOYED, MXNET, ONNX_ENGINES, ONNXRUNTIME, unknown_engine
from quantkit.bundle.read import Bundle
from quantkit.errors import BundleError, EngineMissing, UserError

AUTO = "auto"
"""In place of an engine's name: the fastest engine."""

Run = Callable[[np.ndarray], list[np.ndarray]]


@dataclass(frozen=True, eq=False)
class RunningNetwork:
    """A network in an engine; one thread at a time may use it.

    ``run`` takes a batch of any size, float32, and returns all outputs of the network. It raises BundleError if these
    do not match the bundle's manifest.
    """

    engine: str
    run: Run


def open_network(bundle: Bundle, engine: str) -> RunningNetwork:
    """Load a bundle's network in one of the ``DEPLOYED`` engines.

    Raises:
        UserError: there is no such engine, or it needs an ONNX file and the bundle holds none.
        EngineMissing: the engine is not installed.
        EngineError: the engine cannot run the network on this processor.
        BundleError: symbol and parameters are not a network.
    """
    if not isinstance(engine, str) or engine not in DEPLOYED:
        raise unknown_engine(engine, (*DEPLOYED, AUTO))
    session = _session(bundle, engine)
    name = sole_input(session)
    return RunningNetwork(engine, _checked(bundle, lambda batch: session.run({name: batch})))


def _session(bundle: Bundle, engine: str) -> Session:
    if engine == MXNET.name:
        declared = bundle.manifest.input
        return MXNET.backend().open_session(bundle.graph, {declared.name: (1, *declared.shape)})
    content = bundle.onnx
    if content is None:
        raise UserError(
            f"{ONNX_ENGINES[engine].title} runs ONNX files, and {bundle.directory} holds none; "
            'write it with `quantkit quantize --format mxnet,onnx`, in Python with save(..., formats=("mxnet", "onnx"))'
        )
    return ONNX_ENGINES[engine].backend().open_session(content)


def _checked(bundle: Bundle, run: Run) -> Run:
    """``run`` with its outputs checked against the bundle's manifest."""
    shapes = [output.shape for output in bundle.manifest.outputs]

    def checked(batch: np.ndarray) -> list[np.ndarray]:
        outputs = run(batch)
        wanted = [(len(batch), *shape) for shape in shapes]
        if [output.shape for output in outputs] != wanted or any(output.dtype != np.float32 for output in outputs):
            computed = ", ".join(f"{output.dtype} {output.shape}" for output in outputs)
            raise BundleError(
                f"the network of bundle {bundle.directory} computes {computed} where the manifest says "
                f"{', '.join(f'float32 {shape}' for shape in wanted)}; write the bundle again"
            )
        return outputs

    return checked


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
