"""Sequences run in pieces in FP32, against the definition of the network over whole sequences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import quantkit
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.backends.registry import ONNX_ENGINES
from quantkit.bundle.write import write_float_bundle
from quantkit.deployment.states import States
from quantkit.errors import DataError, UserError
from quantkit.fusion.fused_model import fuse_model
from quantkit.ir.handed_states import zeros_of
from tests.sequences import STEPS, expected_scores, sequence_network, sequences

PIECE = 2
NETWORK = sequence_network("TN", "inputs", final_states=True)
# More than are run at once.
IDS = sequences(19, tokens=True)

Step = Callable[[np.ndarray, States], tuple[np.ndarray, States]]


def load(kind: quantkit.StatesKind) -> quantkit.Model:
    symbol = symbol_of(NETWORK)
    return quantkit.load_model(symbol, params=NETWORK.params, input_shape=(PIECE,), layout="TN", states=kind)


@pytest.fixture
def bundle(engine: None, tmp_path: Path) -> Path:
    return write_float_bundle(fuse_model(load("inputs"), IDS[:, :PIECE]), tmp_path / "fp32")


@pytest.fixture
def predictor(bundle: Path) -> quantkit.Predictor:
    return quantkit.load(bundle)


def scores_in_pieces(step: Step, states: States) -> np.ndarray:
    results = []
    for piece in np.split(IDS, STEPS // PIECE, axis=1):
        scores, states = step(piece, states)
        results.append(scores)
    return np.concatenate(results, axis=1)


def test_a_fused_network_hands_its_states_on(predictor: quantkit.Predictor) -> None:
    _, states = predictor.step(IDS[:, :PIECE])
    assert {name: value.shape for name, value in states.items()} == {"state": (19, 2, 8), "cell": (19, 2, 8)}
    begun = {name: np.zeros_like(value) for name, value in states.items()}
    scores = scores_in_pieces(predictor.step, begun)
    np.testing.assert_allclose(scores, expected_scores(NETWORK, IDS), rtol=0, atol=2e-5)


def test_a_step_without_states_is_a_prediction(predictor: quantkit.Predictor) -> None:
    np.testing.assert_array_equal(predictor.step(IDS[:, :PIECE])[0], predictor.predict(IDS[:, :PIECE]))
    (alone,), states = predictor.step(IDS[3, :PIECE])
    assert [value.shape for value in states.values()] == [(1, 2, 8)] * 2
    np.testing.assert_allclose(alone, predictor.predict(IDS[:, :PIECE])[3], rtol=0, atol=1e-6)


def test_states_are_those_of_their_sequences(predictor: quantkit.Predictor) -> None:
    _, states = predictor.step(IDS[:, :PIECE])
    following, _ = predictor.step(IDS[:, PIECE : 2 * PIECE], states)
    some = [17, 2]
    own, _ = predictor.step(IDS[some, PIECE : 2 * PIECE], {name: value[some] for name, value in states.items()})
    np.testing.assert_allclose(own, following[some], rtol=0, atol=1e-6)


def test_steps_that_cannot_be_made_are_refused(predictor: quantkit.Predictor, tmp_path: Path) -> None:
    _, states = predictor.step(IDS[:2, :PIECE])
    with pytest.raises(DataError, match=r"'state' is float32 of shape \(2, 2, 8\), and needs float32 of shape \(3, 2"):
        predictor.step(IDS[:3, :PIECE], states)
    with pytest.raises(DataError, match="the state 'cell' is missing"):
        predictor.step(IDS[:2, :PIECE], {"state": states["state"]})
    with pytest.raises(DataError, match="there are no samples"):
        predictor.step([])
    with pytest.raises(DataError, match="shape"):
        predictor.step(IDS[:2, :3], states)
    directory = write_float_bundle(fuse_model(load("zero"), IDS[:, :PIECE]), tmp_path / "zero")
    with pytest.raises(UserError, match=r"of the network '.*' are no inputs; load it with --states inputs"):
        quantkit.load(directory).step("nothing is read")


def test_instances_hand_no_states_on(bundle: Path) -> None:
    with (
        quantkit.load(bundle, instances=1) as predictor,
        pytest.raises(UserError, match="instances and streams hand on no states; load the bundle without them"),
    ):
        predictor.step("nothing is read")


@pytest.mark.requires("onnxruntime", "onnx")
def test_an_onnx_file_of_the_network_as_loaded_has_its_states(engine: None, tmp_path: Path) -> None:
    model = load("inputs")
    quantkit.export_onnx(model, tmp_path / "lm.onnx")
    session = ONNX_ENGINES["onnxruntime"].backend().open_session((tmp_path / "lm.onnx").read_bytes())
    assert session.inputs == ("data", "state", "cell")

    def step(piece: np.ndarray, states: States) -> tuple[np.ndarray, States]:
        outputs = session.run({"data": piece.astype(np.float32), **states})
        return outputs[0], {state.input: outputs[state.output] for state in model.states}

    scores = scores_in_pieces(step, zeros_of(model.states, len(IDS)))
    np.testing.assert_allclose(scores, expected_scores(NETWORK, IDS), rtol=0, atol=2e-5)
