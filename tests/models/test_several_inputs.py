"""Gluon blocks and symbols with several inputs, whose shapes the user gives by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.execute import run
from quantkit.data.preprocess import Preprocess
from quantkit.errors import ModelError
from quantkit.models.load import load_model
from quantkit.models.model import Model

SHAPES = {"picture": (3, 10, 10), "features": (5,)}


@pytest.fixture
def block(engine: None) -> Any:
    """An initialised network that scores a picture and features of it."""
    mx = load_mxnet()
    nn = mx.gluon.nn

    class Scored(mx.gluon.HybridBlock):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__(prefix="scored_")
            with self.name_scope():
                self.seen, self.scores = nn.Conv2D(4, 3, activation="relu"), nn.Dense(6)

        def hybrid_forward(self, F: Any, picture: Any, features: Any) -> Any:  # noqa: N803
            return self.scores(F.concat(self.seen(picture).flatten(), features, dim=1))

    mx.random.seed(0)
    net = Scored()
    net.initialize(mx.init.Xavier())
    return net


def arrays(count: int = 3) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: random.normal(size=(count, *shape)).astype(np.float32) for name, shape in SHAPES.items()}


def expected(block: Any) -> np.ndarray:
    result: np.ndarray = block(*map(load_mxnet().nd.array, arrays().values())).asnumpy()
    return result


def computed(model: Model) -> np.ndarray:
    vectors = np.concatenate([values.reshape(len(values), -1) for values in arrays().values()], axis=1)
    (name,) = model.graph.inputs
    return run(model.graph, {name: vectors})[0]


def test_a_block_takes_its_inputs_in_order(block: Any) -> None:
    model = load_model(block, input_shape=SHAPES)
    assert model.joined is not None
    assert model.joined.shapes == SHAPES
    np.testing.assert_allclose(computed(model), expected(block), rtol=1e-5, atol=1e-6)


def test_one_input_by_its_name_is_one_input(engine: None) -> None:
    mx = load_mxnet()
    net = mx.gluon.nn.Conv2D(4, 3, prefix="one_")
    net.initialize()
    model = load_model(net, input_shape={"picture": (3, 8, 8)}, preprocess=Preprocess(8, 8, (0, 0, 0), (1, 1, 1)))
    assert (model.joined, model.graph.inputs, model.input_shape) == (None, ("picture",), (3, 8, 8))


def test_a_checkpoint_is_read_with_the_shapes_of_its_inputs(block: Any, tmp_path: Path) -> None:
    outputs = expected(block)
    block.hybridize()
    block(*map(load_mxnet().nd.array, arrays().values()))
    block.export(str(tmp_path / "net"))
    model = load_model(str(tmp_path / "net"), input_shape={"data0": SHAPES["picture"], "data1": SHAPES["features"]})
    np.testing.assert_allclose(computed(model), outputs, rtol=1e-5, atol=1e-6)
    with pytest.raises(ModelError, match="if it has other inputs, give the shapes of all by their names"):
        load_model(str(tmp_path / "net"), input_shape=SHAPES["picture"])
    with pytest.raises(ModelError, match="has no input 'picture'; give the shape of each of its inputs"):
        load_model(str(tmp_path / "net"), input_shape=SHAPES)


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        ({"picture": (3, 10, 10)}, "cannot be traced with 1 symbolic input"),
        ({**SHAPES, "more": (2,)}, "cannot be traced with 3 symbolic inputs"),
        ({**SHAPES, "features": (0,)}, r"input shape \(0,\) is not that of one input"),
        ({**SHAPES, "picture": (3, 2, 2)}, r"does not accept input of shape \(3, 2, 2\) and \(5,\)"),
    ],
)
def test_shapes_that_do_not_fit(shapes: dict[str, tuple[int, ...]], told: str, block: Any) -> None:
    with pytest.raises(ModelError, match=told):
        load_model(block, input_shape=shapes)


def test_a_card_s_network_has_one_input() -> None:
    with pytest.raises(ModelError, match="digits_resnet20_v2 has one input; give its shape alone"):
        load_model("digits_resnet20_v2", input_shape=SHAPES)
