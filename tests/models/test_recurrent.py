"""The recurrent networks that ship: their cards, what they achieve on held-out data, and the scripts that made them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.data.builtin import digits
from quantkit.files.files import shipped
from quantkit.models.card import find_card
from quantkit.models.load import load_model


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts in models/ import each other as if from one folder."""
    monkeypatch.setattr(sys, "path", [str(shipped("models")), *sys.path])


@pytest.fixture
def digits_script(scripts: None) -> ModuleType:
    import train_digits_lstm

    return train_digits_lstm


def outputs(name: str, inputs: np.ndarray) -> np.ndarray:
    """What the shipped network makes of float32 inputs in MXNet."""
    model = load_model(name, weights="pretrained")
    return MxnetSession(model.graph, {"data": inputs.shape}).run({"data": inputs})[0]


def test_the_accuracy_of_the_classifier_is_its_cards(engine: None, digits_script: ModuleType) -> None:
    card = find_card("digits_lstm")
    assert card is not None
    assert card.accuracy is not None
    rows, labels = digits_script.rows("test")
    top1 = 100 * np.mean(outputs("digits_lstm", rows).argmax(1) == labels)
    assert top1 == pytest.approx(card.accuracy.top1, abs=0.005)
    assert top1 >= 97


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_rows_are_those_of_the_built_in_digits(digits_script: ModuleType, split: str) -> None:
    rows, labels = digits_script.rows(split)
    images = list(digits(split))
    assert labels.tolist() == [sample.label for sample in images]
    # Enlarged to 32 x 32, the pixels in the middle of each original one have nearly its value.
    enlarged = np.stack([sample.image for sample in images])[:, 1::4, 1::4, 0] / 255
    assert np.corrcoef(rows.ravel(), enlarged.ravel())[0, 1] > 0.95


def test_batches_of_digits_are_the_same_each_time_and_other_in_each_pass(digits_script: ModuleType) -> None:
    data = digits_script.rows("train")
    one, other = (list(digits_script.batches(data, epochs=2, seed=3)) for _ in range(2))
    per_pass = 1437 // 32
    assert len(one) == 2 * per_pass
    for (rows, labels), (same_rows, same_labels) in zip(one, other):
        np.testing.assert_array_equal(rows, same_rows)
        np.testing.assert_array_equal(labels, same_labels)
    assert one[0][1].tolist() != one[per_pass][1].tolist()


def test_a_language_model_of_words_is_written_with_tied_weights(engine: None, scripts: None, tmp_path: Path) -> None:
    import word_lm

    for folder in ("one", "other"):
        word_lm.main(["--units", "8", "--vocabulary", "50", "--out", str(tmp_path / folder)])
    one, other = (load_model(tmp_path / folder / "word_lm_8", input_shape=(35,)) for folder in ("one", "other"))
    assert all(np.array_equal(one.graph.params[name], values) for name, values in other.graph.params.items())
    embedded = {node.op: node.inputs[1].node for node in one.graph.nodes if node.op in ("Embedding", "FullyConnected")}
    assert embedded["Embedding"] == embedded["FullyConnected"]
    with np.load(tmp_path / "one" / "word_lm_8.npz") as data:
        words, following = data["x"], data["y"]
    np.testing.assert_array_equal(words[:, 1:], following[:, :-1])
    (scores,) = MxnetSession(one.graph, {"data": words.shape}).run({"data": words.astype(np.float32)})
    assert scores.shape == (64, 35, 50)
