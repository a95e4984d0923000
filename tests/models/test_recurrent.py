"""The recurrent networks that ship: their cards, what they achieve on held-out data, and the scripts that made them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.data.builtin import digits
from quantkit.files.files import shipped
from quantkit.models.card import find_card
from quantkit.models.load import load_model
from tests.processes import environment


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


@pytest.mark.requires("onednn")
@pytest.mark.long
@pytest.mark.parametrize("units", [200, 650])
def test_the_language_model_of_words_runs_in_int8(engine: None, scripts: None, tmp_path: Path, units: int) -> None:
    import word_lm

    word_lm.main(["--units", str(units), "--vocabulary", "2000", "--out", str(tmp_path)])
    model, words, bundle = (f"word_lm_{units}{end}" for end in ("", ".npz", "-int8"))
    quantized = told(
        tmp_path, "quantize", model, "--input-shape", "35", "--calib-data", words, "--calib", "8", "--no-latency"
    )
    assert quantized["int8"] == {"LSTM": 2, "FullyConnected": 1}
    judged = told(tmp_path, "evaluate", bundle, "--data", words, "--reference", model, "--input-shape", "35")
    assert judged["agreement"]["outputs"][0]["sqnr"] > 20


def told(folder: Path, *arguments: str) -> dict[str, Any]:
    """What a command says as JSON, in a process of its own: oneDNN chooses its instructions once per process."""
    command = [sys.executable, "-m", "quantkit", *arguments, "--json"]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture
def lm_script(scripts: None) -> ModuleType:
    import train_char_lm

    return train_char_lm


def test_the_perplexity_of_the_language_model_is_its_cards(engine: None, lm_script: ModuleType) -> None:
    card = find_card("char_lm")
    assert card is not None
    assert card.accuracy is not None
    assert card.accuracy.perplexity is not None
    text = lm_script.numpy_text()
    characters, following = lm_script.windows(lm_script.encoded(text.test), lm_script.STEPS)
    scores = outputs("char_lm", characters.astype(np.float32))
    perplexity, top1 = np.exp(lm_script.cross_entropy(scores, following)), 100 * np.mean(scores.argmax(-1) == following)
    assert lm_script.sha256_of_text(text) in card.accuracy.origin
    assert perplexity == pytest.approx(card.accuracy.perplexity, rel=1e-4)
    assert top1 == pytest.approx(card.accuracy.top1, abs=0.01)
    assert perplexity < 4


def test_the_texts_share_no_paragraph(lm_script: ModuleType) -> None:
    text = lm_script.numpy_text()
    assert text == lm_script.numpy_text()
    assert not set(text.train.split("\n\n")) & set(text.test.split("\n\n"))
    assert len(text.train) > 8 * len(text.test) > 800_000


def test_windows_hold_a_text_and_what_follows(lm_script: ModuleType) -> None:
    ids = lm_script.encoded("a\nb ~é!")
    assert ids.tolist() == [67, 1, 68, 2, 96, 0, 3]
    characters, following = lm_script.windows(ids, 2, offset=1)
    assert characters.tolist() == [[1, 68], [2, 96]]
    assert following.tolist() == [[68, 2], [96, 0]]
    assert lm_script.VOCABULARY == 97


def test_batches_of_a_text_are_the_same_each_time_and_cut_anew_in_each_pass(lm_script: ModuleType) -> None:
    text = "".join(map(chr, np.random.default_rng(0).integers(32, 127, 1000)))
    one, other = (list(lm_script.batches(text, epochs=2, batch_size=3, seed=5)) for _ in range(2))
    assert len(one) == 2 * 3
    for (characters, following), (same, _) in zip(one, other):
        np.testing.assert_array_equal(characters, same)
        np.testing.assert_array_equal(characters[:, 1:], following[:, :-1])
        assert characters.shape == (3, lm_script.STEPS)
    passes = [np.concatenate([characters for characters, _ in part]) for part in (one[:3], one[3:])]
    assert sorted(map(tuple, passes[0])) != sorted(map(tuple, passes[1]))


def test_the_scripts_write_what_they_test_on(digits_script: ModuleType, lm_script: ModuleType, tmp_path: Path) -> None:
    digits_script.main(["--data-out", str(tmp_path)])
    lm_script.main(["--data-out", str(tmp_path)])
    with np.load(tmp_path / "digits_lstm-test.npz") as data:
        assert (data["x"].dtype, data["x"].shape, data["y"].shape) == (np.float32, (360, 8, 8), (360,))
    with np.load(tmp_path / "char_lm-test.npz") as data:
        assert (data["x"].dtype, data["y"].dtype, data["x"].shape) == (np.int64, np.int64, data["y"].shape)
        assert (data["x"].shape[1], data["x"].max() < lm_script.VOCABULARY) == (lm_script.STEPS, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{name}-{split}.npz" for name in ("char_lm", "digits_lstm") for split in ("test", "train")
    ]
