"""The card of a network that is written: a card as ``models.card`` reads it, and a bundle's list of labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from quantkit.bundle.file_names import LABELS, PARAMS, SYMBOL
from quantkit.data.boxes import BoxCorners
from quantkit.files.toml import Value, toml_text
from quantkit.models.families import Task
from quantkit.models.layout import SEQUENCE_LAYOUTS
from quantkit.models.model import Model


def card_text(model: Model, classes: int) -> str:
    """The card of the bundle's network as TOML; ``classes`` is the number of values in its first output."""
    files = {"name": model.name, "symbol": SYMBOL, "params": PARAMS}
    entries = {**files, **network_entries(model, classes, LABELS)}
    return toml_text(entries, {"preprocess": preprocess_entries(model)})


def network_entries(model: Model, classes: int, labels: Value) -> dict[str, Value]:
    """What a card says of a network itself.

    Args:
        model: the network.
        classes: the number of values in its first output.
        labels: the names of the classes, or the file that has them, if there are any.
    """
    entries: dict[str, Value] = {"input_shape": model.input_shape, "classes": classes}
    if model.layout in SEQUENCE_LAYOUTS:
        entries["layout"] = model.layout
    if model.labels:
        entries["labels"] = labels
    if model.exclude:
        entries["exclude"] = model.exclude
    if (task := told_task(model.task)) is not None:
        entries["task"] = task
    if (corners := told_corners(model)) is not None:
        entries["box_corners"] = corners
    return entries


def preprocess_entries(model: Model) -> dict[str, Value]:
    """A card's table on how images are prepared; empty: they are not."""
    steps: dict[str, Value] = {}
    preprocess = model.preprocess
    if preprocess is not None:
        steps.update({"mean": map(float, preprocess.mean), "std": map(float, preprocess.std)})
        steps.update({"scale": float(preprocess.scale), "rotate180": preprocess.rotate180})
        sizes = {"resize": preprocess.resize, "crop": preprocess.crop, "fit": preprocess.fit}
        steps.update({name: size for name, size in sizes.items() if size is not None})
    return steps


def told_task(task: Optional[Task]) -> Optional[Task]:
    """What a bundle tells of its network's task: nothing of classification, which is a card's default."""
    return None if task == "classification" else task


def told_corners(model: Model) -> Optional[BoxCorners]:
    """What files tell of the corners of a network's boxes: always those of detectors, of others only ``pixels``."""
    return model.box_corners if model.task == "detection" or model.box_corners != "edges" else None


def label_lines(labels: Iterable[str]) -> str:
    """One label per line; line breaks inside a label become spaces."""
    return "".join(" ".join(label.splitlines()) + "\n" for label in labels)
