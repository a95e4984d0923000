"""Recurrent layers of Gluon's whose first weights have an open width, as Gluon exports them unless told the width."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.execute import run
from quantkit.errors import ModelError
from quantkit.models.load import load_model

STEPS, TOKENS, WIDTH = 6, 11, 5
DATA = np.random.default_rng(0).integers(0, TOKENS, (2, STEPS)).astype(np.float32)


def block(layers: int, both: bool) -> Any:
    """An embedding and two recurrent blocks after each other, none told what it reads."""
    from mxnet.gluon import nn, rnn

    net = nn.HybridSequential(prefix=f"open{layers}{both}_")
    with net.name_scope():
        net.add(nn.Embedding(TOKENS, WIDTH))
        net.add(rnn.LSTM(4, num_layers=layers, bidirectional=both, layout="NTC"))
        net.add(rnn.GRU(3, layout="NTC"))
        net.add(nn.Dense(TOKENS, flatten=False))
    net.initialize(load_mxnet().init.Xavier())
    net.hybridize()
    return net


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("both", [False, True], ids=["forward", "bidirectional"])
def test_widths_follow_from_the_data(engine: None, tmp_path: Path, layers: int, both: bool) -> None:
    net = block(layers, both)
    expected = net(load_mxnet().nd.array(DATA)).asnumpy()
    net.export(str(tmp_path / "net"))
    model = load_model(tmp_path / "net", input_shape=(STEPS,))
    np.testing.assert_allclose(run(model.graph, {"data": DATA})[0], expected, rtol=1e-5, atol=1e-6)
    random = load_model(tmp_path / "net", input_shape=(STEPS,), weights="random")
    assert {name: value.shape for name, value in random.graph.params.items()} == {
        name: value.shape for name, value in model.graph.params.items()
    }


def test_a_block_that_has_not_run_yet_is_read_too(engine: None) -> None:
    model = load_model(block(2, True), input_shape=(STEPS,))
    assert run(model.graph, {"data": DATA})[0].shape == (2, STEPS, TOKENS)


def test_weights_of_another_width_are_refused(engine: None, tmp_path: Path) -> None:
    net = block(1, False)
    net(load_mxnet().nd.array(DATA))
    net.export(str(tmp_path / "net"))
    with pytest.raises(ModelError, match="shape"):
        load_model(tmp_path / "net", input_shape=(STEPS, 3, 8))
