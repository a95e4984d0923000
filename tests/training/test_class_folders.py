"""Labels by the names of folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from quantkit.errors import UserError
from quantkit.training.class_folders import check_order, folder_labels
from quantkit.training.config import TrainingConfig
from quantkit.training.finetune import finetune
from tests.training.conftest import coloured, tiny


def folders(place: Path, *names: str) -> Path:
    """``coloured`` images, one class in each folder."""
    for number, sample in enumerate(coloured(24)):
        if sample.label is not None and int(sample.label) < len(names):
            folder = place / names[int(sample.label)]
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(sample.image).save(folder / f"{number:02}.png")
    return place


def test_the_names_of_folders_are_those_of_new_classes(tmp_path: Path) -> None:
    path = folders(tmp_path, "blue", "green", "red")
    assert folder_labels(path, path, 3, 1000) == folder_labels(str(path), None, 3, 1000) == ("blue", "green", "red")
    # A network that keeps its classes has names for them.
    assert folder_labels(path, None, None, 3) == ()


def test_other_samples_have_no_names(tmp_path: Path) -> None:
    numbered = folders(tmp_path, "0", "1")
    for data in (coloured(6), numbered, str(numbered), "digits:train"):
        assert folder_labels(data, None, 5, 1000) == ()


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (4, r"has 3 folders of classes, and classes \(--classes\) is 4; correct one"),
        (None, r"has 3 folders of classes, and the network 1000 classes; give --classes 3 \(classes=3\)"),
    ],
)
def test_folders_that_are_not_as_many_as_the_classes(classes: int | None, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=words):
        folder_labels(folders(tmp_path, "a", "b", "c"), None, classes, 1000)


def test_folders_that_shift_labels_are_refused(tmp_path: Path) -> None:
    train, held = folders(tmp_path / "train", "a", "b", "c"), folders(tmp_path / "held", "b", "c")
    with pytest.raises(
        UserError, match=r"train and .*held are not the same, such as 'a'; their order gives the labels"
    ):
        folder_labels(train, held, 3, 1000)
    with pytest.raises(UserError, match="are not the same, such as 'a'"):
        finetune(tiny(), train, held, classes=3, labels=("x", "y", "z"))


def test_a_trained_network_has_the_names(tmp_path: Path) -> None:
    config = TrainingConfig(epochs=1, batch_size=8)
    path = folders(tmp_path, "blue", "green", "red")
    assert finetune(tiny(), path, classes=3, config=config, workers=0).model.labels == ("blue", "green", "red")
    named = finetune(tiny(), path, classes=3, labels=("x", "y", "z"), config=config, workers=0)
    assert named.model.labels == ("x", "y", "z")


def test_folders_that_permute_labels_are_refused(tmp_path: Path) -> None:
    path = folders(tmp_path, "blue", "green", "red")
    words = r"names of the labels in another order: 'blue' would be class 0, and is class 2 of the labels; list the"
    with pytest.raises(UserError, match=words):
        check_order(str(path), ("red", "green", "blue"))
    for labels in (("blue", "green", "red"), ("a", "b", "c"), ("red", "green"), ()):
        check_order(path, labels)
    for data in (None, coloured(6), "digits:train"):
        check_order(data, ("red", "green", "blue"))


def test_labels_are_those_of_the_network_or_given(tmp_path: Path) -> None:
    path, config = folders(tmp_path, "blue", "green", "red"), TrainingConfig(epochs=1, batch_size=8)
    order = ("red", "green", "blue")
    for train, held in ((path, None), (coloured(24), path)):
        with pytest.raises(UserError, match="have the names of the labels in another order"):
            finetune(replace(tiny(), labels=order), train, held, config=config, workers=0)
        with pytest.raises(UserError, match="have the names of the labels in another order"):
            finetune(tiny(), train, held, classes=3, labels=order, config=config, workers=0)
    # A new layer has the labels of the folders.
    model = replace(tiny(), labels=order)
    assert finetune(model, path, classes=3, config=config, workers=0).model.labels == ("blue", "green", "red")
