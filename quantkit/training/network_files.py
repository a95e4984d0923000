"""A classifier as files: MXNet's checkpoint, and a model card that ``load_model`` takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from quantkit.backends.mxnet.checkpoint import write_checkpoint
from quantkit.bundle.card import network_entries, preprocess_entries
from quantkit.files.toml import Value, toml_text
from quantkit.ir.graph import Graph
from quantkit.models.model import Model

_NAME = "model"
SYMBOL, PARAMS, CARD = f"{_NAME}-symbol.json", f"{_NAME}-0000.params", "card.toml"


def write_graph(graph: Graph, folder: Path, name: str) -> tuple[Path, Path]:
    """Write a network into a folder; returns the paths of its symbol and its parameters.

    Raises:
        OSError: a file cannot be written.
    """
    files = folder / f"{name}-symbol.json", folder / f"{name}-0000.params"
    with open(files[0], "wb") as symbol, open(files[1], "wb") as params:
        write_checkpoint(graph, symbol, params)
    return files


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
    symbol, params = write_graph(model.graph, folder, _NAME)
    entries: dict[str, Value] = {
        "name": name,
        "symbol": symbol.name,
        "params": params.name,
        "description": description,
        **network_entries(model, classes, model.labels),
    }
    tables = {"preprocess": preprocess_entries(model), "accuracy": accuracy}
    (folder / CARD).write_text(toml_text(entries, tables), encoding="utf-8")
    return folder / CARD
