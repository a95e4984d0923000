"""A bundle's network in an engine, whichever it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from quantkit.bundle.read import Bundle
from quantkit.engine.any_batch import AnyBatch
from quantkit.engine.compat import load_mxnet
from quantkit.engine.support import int8_obstacle
from quantkit.errors import BundleError, EngineMissing, UserError
from quantkit.runtimes.engines import ONNX_ENGINES
from quantkit.runtimes.session import sole_input

MXNET = "mxnet"
ENGINES = (MXNET, "onnxruntime", "openvino")
"""The engines that networks are deployed in, the one that is taken first if nothing is asked for first."""


Run = Callable[[np.ndarray], list[np.ndarray]]


@dataclass(frozen=True, eq=False)
class RunningNetwork:
    """A network in an engine; one thread at a time may use it.

    ``run`` takes a batch of any size of the network's input, float32, and gives all outputs of the network. It raises
    BundleError where these are not what the bundle's manifest says.
    """

    engine: str
    run: Run


def open_network(bundle: Bundle, engine: str) -> RunningNetwork:
    """Load a bundle's network in one of ``ENGINES``.

    Raises:
        UserError: there is no such engine, or the bundle holds no ONNX file, which it needs.
        EngineMissing: the engine is not installed.
        EngineError: it cannot run the network on this processor.
        BundleError: symbol and parameters are not a network.
    """
    if engine not in ENGINES:
        raise UserError(f"there is no engine {engine!r}; choose one of {', '.join(ENGINES)} or auto")
    if engine == MXNET:
        return RunningNetwork(engine, _checked(bundle, AnyBatch(bundle.graph, bundle.manifest.input.shape).run))
    content = bundle.onnx
    if content is None:
        raise UserError(
            f"{ONNX_ENGINES[engine].title} runs ONNX files, and {bundle.directory} holds none; "
            'write it with `quantkit quantize --format mxnet,onnx`, in Python with save(..., formats=("mxnet", "onnx"))'
        )
    session = ONNX_ENGINES[engine].open_session(content)
    name = sole_input(session)
    return RunningNetwork(engine, _checked(bundle, lambda batch: session.run({name: batch})))


def _checked(bundle: Bundle, run: Run) -> Run:
    """``run``, held to the outputs that the bundle's manifest names."""
    shapes = [output.shape for output in bundle.manifest.outputs]

    def checked(batch: np.ndarray) -> list[np.ndarray]:
        outputs = run(batch)
        wanted = [(len(batch), *shape) for shape in shapes]
        if [output.shape for output in outputs] != wanted or any(output.dtype != np.float32 for output in outputs):
            found = ", ".join(f"{output.dtype} {output.shape}" for output in outputs)
            raise BundleError(
                f"the network of bundle {bundle.directory} puts out {found} where the manifest says "
                f"{', '.join(f'float32 {shape}' for shape in wanted)}; write the bundle again"
            )
        return outputs

    return checked


def usable_engines(bundle: Bundle) -> dict[str, str]:
    """The versions of the engines that are installed and can run the bundle, by name, in the order of ``ENGINES``."""
    found = {}
    try:
        mxnet = load_mxnet()
        if bundle.manifest.kind == "fp32" or not int8_obstacle():
            found[MXNET] = str(mxnet.__version__)
    except EngineMissing:
        pass
    if bundle.holds_onnx:
        installed = {name: ONNX_ENGINES[name] for name in ENGINES if name != MXNET and ONNX_ENGINES[name].is_installed}
        found.update({name: engine.version for name, engine in installed.items()})
    return found


def default_engine(bundle: Bundle) -> str:
    """MXNet where it is installed, else the first engine that is and can run the bundle.

    Raises:
        EngineMissing: there is none.
    """
    try:
        load_mxnet()
    except EngineMissing as error:
        found = next(iter(usable_engines(bundle)), None)
        if found is not None:
            return found
        other = (
            "or ONNX Runtime for the bundle's ONNX file: pip install 'quantkit[onnxruntime]'"
            if bundle.holds_onnx
            else "the bundle holds no ONNX file that other engines could run"
        )
        raise EngineMissing(f"{error}; {other}") from error
    return MXNET
