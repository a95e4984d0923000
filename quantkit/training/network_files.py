"""A classifier as files: MXNet's checkpoint, and a model card that ``load_model`` takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from quantkit.backends.mxnet.checkpoint import write_checkpoint
from quantkit.files.toml import Value, toml_text
from quantkit.models.model import Model

SYMBOL, PARAMS, CARD = "model-symbol.json", "model-0000.params", "card.toml"


def write_network(
    model: Model, classes: int, folder: Path, name: str, description: str, accuracy: Mapping[str, Value]
) -> Path:
    """Write a classifier into a folder; returns the path of its card.

    Args:
        model: the network.
        classes: their number.
        folder: a folder that is there.
        name: what the card calls it.
        description: what it says of it.
        accuracy: its table of that name; empty: none.

    Raises:
        OSError: a file cannot be written.
    """
    with open(folder / SYMBOL, "wb") as symbol, open(folder / PARAMS, "wb") as params:
        write_checkpoint(model.graph, symbol, params)
    entries: dict[str, Value] = {
        "name": name,
        "symbol": SYMBOL,
        "params": PARAMS,
        "description": description,
        "input_shape": model.input_shape,
        "classes": classes,
    }
    if model.labels:
        entries["labels"] = model.labels
    if model.exclude:
        entries["exclude"] = model.exclude
    preprocess = {} if model.preprocess is None else asdict(model.preprocess)
    tables = {
        "preprocess": {key: value for key, value in preprocess.items() if value is not None},
        "accuracy": accuracy,
    }
    (folder / CARD).write_text(toml_text(entries, tables), encoding="utf-8")
    return folder / CARD
