"""Every engine: it computes what MXNet does, says what is wrong, and tells in which precision it computed."""

from __future__ import annotations

import sys
from contextlib import suppress

import numpy as np
import pytest

from quantkit.backends import onnxruntime
from quantkit.backends.base import Backend, Session
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.backends.registry import DEPLOYED, DEPLOYED_ONNX, ENGINES, MXNET, ONNX_ENGINES
from quantkit.errors import EngineError, EngineMissing
from quantkit.files.text import parse_json
from quantkit.formats.onnx.writing.model import onnx_model
from quantkit.ir.graph import Graph
from tests.backends.networks import float_file, int8_file, quantized
from tests.formats.onnx.reading.files import Writer
from tests.formats.onnx.recurrent_networks import STEPS, VOCABULARY, language_model
from tests.networks import Builder, images, residual_v1
from tests.requirements import package, requires

pytestmark = pytest.mark.usefixtures("engine")

WITH_KERNELS = [name for name, engine in ONNX_ENGINES.items() if engine.backend().rewrites]


def backend_of(name: str) -> Backend[bytes]:
    engine = ONNX_ENGINES[name]
    requires(engine.package)
    return engine.backend()


def opened(name: str, graph: Graph) -> Session:
    """A network in an engine."""
    return (
        MXNET.backend().open_session(graph) if name == MXNET.name else backend_of(name).open_session(float_file(graph))
    )


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("count", [1, 3])
def test_batches_of_any_size_compute_what_each_image_does_in_mxnet(name: str, count: int) -> None:
    session = opened(name, residual_v1())
    assert session.inputs == ("data",)
    for data in (images(count), images(5)):
        (found,) = session.run({"data": data})
        expected = np.concatenate([run(residual_v1(), {"data": one[None]})[0] for one in data])
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ENGINES)
def test_tokens_are_given_as_numbers(name: str) -> None:
    b = Builder()
    graph = b.graph(language_model(b))
    shapes = infer_shapes(graph, {"data": (1, STEPS)})
    tokens = np.random.default_rng(2).integers(0, VOCABULARY, (3, STEPS)).astype(np.float32)
    if name == MXNET.name:
        session: Session = MXNET.backend().open_session(graph)
    else:
        session = backend_of(name).open_session(onnx_model(graph, shapes, 17).SerializeToString())
    (scores,) = session.run({"data": tokens})
    np.testing.assert_allclose(scores, run(graph, {"data": tokens})[0], rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", DEPLOYED)
def test_results_stay_when_the_next_batch_runs(name: str) -> None:
    session = opened(name, residual_v1())
    (first,) = session.run({"data": images(2)})
    before = first.copy()
    session.run({"data": -images(2)})
    np.testing.assert_array_equal(first, before)


@pytest.mark.parametrize("name", ENGINES)
def test_images_of_another_shape_are_refused(name: str) -> None:
    session = opened(name, residual_v1())
    session.run({"data": images(2)})
    with pytest.raises(EngineError, match=r"cannot run the network|has shape"):
        session.run({"data": np.zeros((1, 2, 16, 16), np.float32)})


@pytest.mark.parametrize("name", ONNX_ENGINES)
def test_what_is_no_onnx_file_is_refused(name: str) -> None:
    with pytest.raises(EngineError, match="cannot load the network"):
        backend_of(name).open_session(b"no network")


@pytest.mark.parametrize("name", DEPLOYED_ONNX)
def test_an_operator_that_the_engine_lacks_is_named(name: str) -> None:
    w = Writer(shape=(1, 6))
    with pytest.raises(EngineError, match="NoSuchOperator"):
        backend_of(name).open_session(w.model(w.op("NoSuchOperator", "x")).SerializeToString())


@pytest.mark.parametrize("name", ONNX_ENGINES)
def test_what_to_install_is_said(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, content = ONNX_ENGINES[name], float_file(residual_v1())
    requires(engine.package)
    backend, extra = engine.backend(), "onnx" if name == "reference" else name
    assert backend.version()
    for module in [each for each in sys.modules if each.split(".")[0] == engine.package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, engine.package, None)
    for asked in (backend.version, lambda: backend.open_session(content)):
        with pytest.raises(EngineMissing, match=rf"pip install 'quantkit\[{extra}\]'"):
            asked()


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_layers_in_fp32_are_seen(name: str) -> None:
    backend = backend_of(name)
    layers = backend.executed_layers(float_file(residual_v1()), {"data": images(1)})
    assert len(layers) == 4
    assert {layer.precision for layer in layers} == {"fp32"}


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_layers_in_int8_are_seen_by_name(name: str, int8_engine: None) -> None:
    backend = backend_of(name)
    content = int8_file(quantized(residual_v1(), images(4)))
    layers = backend.executed_layers(content, {"data": images(1)})
    in_integers = {name for layer in layers if layer.precision == "int8" for name in layer.names}
    assert {"bn0", "bn1", "bn2"} <= in_integers


@pytest.mark.parametrize(
    "odd", ['"', "\\", "\n", "\x01", "\N{SNOWMAN}", '"}]', "%s", "a" * 100_000], ids=lambda value: repr(value)[:20]
)
@pytest.mark.parametrize("name", WITH_KERNELS)
def test_what_layers_are_called_is_an_engine_error_at_most(name: str, odd: str) -> None:
    onnx, backend = package("onnx"), backend_of(name)
    model = onnx.load_model_from_string(float_file(residual_v1()))
    for index, node in enumerate(model.graph.node):
        node.name = f"{odd}{index}"
    with suppress(EngineError):
        assert len(backend.executed_layers(model.SerializeToString(), {"data": images(1)})) == 4


@pytest.mark.parametrize("content", ["", "null", "7", "[7]", '[{"args": 7}]', '[{"name": 7, "cat": "Node"}]', "["])
def test_a_profile_of_another_form_is_an_engine_error(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backend_of("onnxruntime")
    monkeypatch.setattr(onnxruntime, "read_json", lambda path, most: parse_json(content))
    with pytest.raises(EngineError, match="cannot tell which operators it ran"):
        backend.executed_layers(float_file(residual_v1()), {"data": images(1)})
