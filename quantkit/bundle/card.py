"""A bundle's model card: a card as ``models.card`` reads it, and its list of labels."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Union

from quantkit.bundle.manifest import LABELS, PARAMS, SYMBOL
from quantkit.models.model import Model

Value = Union[str, int, float, bool, Iterable["Value"]]


def card_text(model: Model, classes: int) -> str:
    """The card of the bundle's network as TOML; ``classes`` is the number of values that it puts out."""
    entries: dict[str, Value] = {
        "name": model.name,
        "symbol": SYMBOL,
        "params": PARAMS,
        "input_shape": model.input_shape,
        "classes": classes,
    }
    if model.labels:
        entries["labels"] = LABELS
    if model.exclude:
        entries["exclude"] = model.exclude
    lines = [f"{key} = {_toml(value)}" for key, value in entries.items()]
    found = model.preprocess
    if found is not None:
        steps: dict[str, Value] = {"mean": map(float, found.mean), "std": map(float, found.std)}
        steps.update({"scale": float(found.scale), "rotate180": found.rotate180})
        sizes = {"resize": found.resize, "crop": found.crop}
        steps.update({name: size for name, size in sizes.items() if size is not None})
        lines += ["", "[preprocess]", *(f"{key} = {_toml(value)}" for key, value in steps.items())]
    return "\n".join(lines) + "\n"


def label_lines(labels: Iterable[str]) -> str:
    """One label a line; line breaks inside a label become spaces."""
    return "".join(" ".join(label.splitlines()) + "\n" for label in labels)


def _toml(value: Value) -> str:
    if isinstance(value, str):
        # JSON's strings are TOML's, but for one control character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    return f"[{', '.join(map(_toml, value))}]"
