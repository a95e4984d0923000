"""Writing a trained network, with a record of the training."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Union

from quantkit.data.left_out import documents
from quantkit.files.files import sha256_of
from quantkit.files.folders import Kind, replacing
from quantkit.files.toml import Value
from quantkit.training.epoch import document_of
from quantkit.training.finetune import FineTuned
from quantkit.training.network_files import CARD, PARAMS, SYMBOL, write_network
from quantkit.version import __version__

RECORD = "training.json"

TRAINED = Kind("a trained network", RECORD, frozenset({SYMBOL, PARAMS, CARD, RECORD}))
"""The folder of a trained network."""


def save_trained(trained: FineTuned, folder: Union[str, Path], name: str, force: bool = False) -> Path:
    """Write a trained network whole, or nothing; returns the path of its card.

    Args:
        trained: the network.
        folder: where to; made if it is missing.
        name: what the card calls it.
        force: replace an older trained network there.

    Raises:
        UserError: something else is there, or a trained network and ``force`` is not given.
        QuantkitError: the disk is full, or the place cannot be written.
    """
    folder = Path(folder)
    with replacing(folder, force, TRAINED) as new:
        description = f"{trained.base}, fine-tuned on {trained.data[0]}"
        write_network(trained.model, trained.classes, new, name, description, _accuracy(trained))
        record = {**record_of(trained), "sha256": sha256_of(new / PARAMS)}
        (new / RECORD).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return folder / CARD


def record_of(trained: FineTuned) -> dict[str, Any]:
    """How a network was trained, and what each epoch brought, as JSON values."""
    return {
        "quantkit": __version__,
        "base": trained.base,
        "base_source": asdict(trained.base_source),
        "train": trained.data[0],
        "validation": trained.data[1],
        "config": asdict(trained.config),
        "epochs": [document_of(epoch) for epoch in trained.epochs],
        "best_epoch": trained.best,
        "stopped_early": trained.stopped_early,
        "left_out": documents(trained.left_out),
        "validation_left_out": documents(trained.validation_left_out),
    }


def _accuracy(trained: FineTuned) -> dict[str, Value]:
    """The table of a card; empty without validation samples."""
    best = trained.epochs[trained.best - 1].validated
    if best is None:
        return {}
    origin = f"{best.samples} validation samples of {trained.data[1]}, which also chose the epoch"
    return {"top1": round(100 * best.top1, 2), "origin": origin}
