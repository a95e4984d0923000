"""What the name or path of a network stands for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Union

from quantkit.errors import ModelError
from quantkit.models.card import Card, find_card, read_card
from quantkit.models.names import nearest, zoo_card
from quantkit.models.onnx_file import ONNX_SUFFIX
from quantkit.models.preprocess_size import check_crop
from quantkit.models.symbol import symbol_file


def locate(spec: str) -> Union[Card, Path]:
    """What a name or path stands for: a model card, an ONNX file, or the symbol file of a checkpoint.

    Raises:
        ModelError: there is no such network, or its card cannot be read.
    """
    path = Path(spec)
    if path.suffix == ".toml":
        return _own_card(path)
    if path.suffix == ONNX_SUFFIX:
        return path
    shipped = None if os.sep in spec else find_card(spec)
    return shipped or symbol_file(path) or _checked_name(spec)


def _own_card(path: Path) -> Card:
    card = read_card(path)
    for preprocess in (card.preprocess, *(source.preprocess for source in card.sources)):
        check_crop(preprocess, card.input_shape, f"model card {path}")
    return card


def _checked_name(spec: str) -> Card:
    """The card of a GluonCV name without a shipped one.

    Raises:
        ModelError: there is no such name; the nearest names are offered.
    """
    path = Path(spec)
    if os.path.isdir(path):
        raise ModelError(f"{spec} is a folder; give a checkpoint's prefix in it, or load a bundle with quantkit.load()")
    if path.suffix in (".params", ".npz", ".safetensors"):
        raise ModelError(
            f"{spec} is not a network that can be read; give a -symbol.json or .onnx file, or a name with --weights"
        )
    card = None if os.sep in spec else zoo_card(spec)
    if card is None:
        offers = nearest(path.name)
        hint = f"did you mean {', '.join(offers)}?" if offers else "`quantkit models` lists the names"
        raise ModelError(
            f"unknown network {spec!r}: no such name, model card, ONNX file, or checkpoint {spec}-symbol.json; {hint}"
        )
    return card
