"""The checkpoint of a training: what comes back, and what is refused."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.data.left_out import LeftOut
from quantkit.errors import UserError
from quantkit.training.checkpoint import Checkpoint, check_alike, claimed, read_checkpoint, write_checkpoint
from quantkit.training.epoch import Epoch
from quantkit.training.unused import Unused
from quantkit.training.validation import Validated

EPOCHS = (Epoch(1, 0.5, 0.1, 3.0, 64, 0.25, Validated(32, 20, 0.75)), Epoch(2, 0.25, 0.05, 3.0, 64, 0.0, None))
UNUSED = Unused((LeftOut(3, "é.png", "cannot read image é.png"),), (LeftOut(0, "0.png", "it is empty"),))
ARRAYS = {"weight": np.arange(6, dtype=np.float32).reshape(2, 3)}


def written(path: Path) -> Path:
    write_checkpoint(path, Checkpoint("training", EPOCHS, ARRAYS, {"weight": 2 * ARRAYS["weight"]}, 1, UNUSED))
    return path


def test_all_of_it_comes_back(tmp_path: Path) -> None:
    found = read_checkpoint(written(tmp_path / "net.checkpoint"), "training")
    assert found is not None
    assert found.epochs == EPOCHS and found.best_epoch == 1 and found.training == "training"
    assert found.unused == UNUSED
    assert np.array_equal(found.state["weight"], ARRAYS["weight"])
    assert np.array_equal(found.best["weight"], 2 * ARRAYS["weight"])
    assert read_checkpoint(tmp_path / "none", "training") is None


def changed(path: Path, **facts: Any) -> Path:
    """The same file with other facts."""
    arrays = dict(np.load(path))
    document = {**json.loads(arrays["checkpoint"].tobytes()), **facts}
    content = io.BytesIO()
    np.savez(content, **{**arrays, "checkpoint": np.frombuffer(json.dumps(document).encode(), np.uint8)})
    path.write_bytes(content.getvalue())
    return path


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"version": 2}, "version: Input should be 1"),
        ({"training": 3}, "training: Input should be a valid string"),
        ({"epochs": []}, "it holds 0 epochs, of which number 1 is the best"),
        ({"best_epoch": 0}, "it holds 2 epochs, of which number 0 is the best"),
        ({"best_epoch": 3}, "of which number 3 is the best"),
        ({"epochs": [{"number": "one"}]}, "epochs.0"),
        ({"epochs": 7}, "epochs: Input should be a valid"),
        ({"epochs": [{**asdict(EPOCHS[0]), "number": 2}]}, "what it says of epoch 1 cannot be"),
        ({"epochs": [{**asdict(EPOCHS[0]), "samples": 10**400}]}, "what it says of epoch 1 cannot be"),
        ({"epochs": [asdict(EPOCHS[0]), {**asdict(EPOCHS[1]), "seconds": 0.0}]}, "what it says of epoch 2 cannot be"),
        ({"epochs": [{**asdict(EPOCHS[0]), "waited": 3.0}]}, "what it says of epoch 1 cannot be"),
        ({"left_out": [{"position": 3, "name": "3.png"}]}, "left_out.0.reason: Field required"),
        ({"left_out": [{**asdict(UNUSED.training[0]), "name": "\ud800"}]}, "Invalid JSON"),
        (
            {"left_out": [{**asdict(UNUSED.training[0]), "position": -1}]},
            "a sample that it says was left out cannot be",
        ),
        ({"validation_left_out": [{**asdict(UNUSED.training[0]), "position": 2**53}]}, "was left out cannot be"),
    ],
)
def test_other_facts_are_refused(tmp_path: Path, facts: dict[str, Any], words: str) -> None:
    path = changed(written(tmp_path / "net.checkpoint"), **facts)
    with pytest.raises(UserError) as caught:
        read_checkpoint(path, "training")
    assert words in str(caught.value) and "begin anew with --restart (restart=True)" in str(caught.value)


def test_parameters_of_another_network_are_told() -> None:
    check_alike(ARRAYS, dict(ARRAYS))
    for other in (
        {},
        {**ARRAYS, "bias": np.ones(2)},
        {"weight": ARRAYS["weight"].T},
        {"weight": ARRAYS["weight"].astype(int)},
    ):
        with pytest.raises(ValueError, match=r"its parameter '(weight|bias)' is not the network's"):
            check_alike(other, ARRAYS)


def test_a_checkpoint_is_of_one_training_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    for _ in range(2):
        refused = pytest.raises(UserError, match=f"another process trains with the checkpoint {path}; wait")
        with claimed(path), refused, claimed(path):
            pass
        assert not [*tmp_path.iterdir()]
    with claimed(path), claimed(tmp_path / "other"), claimed(None):
        pass
