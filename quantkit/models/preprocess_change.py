"""The user's changes to a network's preprocessing, which override its card or file."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Optional

from quantkit.data.preprocess import Fit, Preprocess
from quantkit.errors import ModelError
from quantkit.models.model import Model

Triple = tuple[float, float, float]

_UNCHANGED = Preprocess(resize=None, crop=None, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


class PreprocessChangedWarning(UserWarning):
    """The user's preprocessing differs from that of the network's card or file."""


@dataclass(frozen=True)
class PreprocessChange:
    """Steps of a preprocessing, as in ``Preprocess``; None for those that do not change.

    Raises:
        UserError: a value is impossible for its step.
    """

    resize: Optional[int] = None
    crop: Optional[int] = None
    mean: Optional[Triple] = None
    std: Optional[Triple] = None
    scale: Optional[float] = None
    rotate180: Optional[bool] = None
    fit: Optional[Fit] = None

    def __post_init__(self) -> None:
        whole = Preprocess(**self.given)
        for name in self.given:
            object.__setattr__(self, name, getattr(whole, name))

    @property
    def given(self) -> dict[str, Any]:
        """The steps that change."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in named.items() if value is not None}


def with_preprocess(model: Model, change: PreprocessChange) -> Model:
    """The model with changed preprocessing; the same model if nothing changes.

    If the network's preprocessing is unknown, the steps that are not given are left out, except for the division by
    255. If the card or the file has other values, a warning names both. A ``fit`` replaces ``resize`` and ``crop``, and
    these a ``fit``.

    Raises:
        ModelError: the crop does not have the size that the network reads.
    """
    given = change.given
    if not given:
        return model
    known = model.preprocess
    other = [name for name, value in given.items() if known is not None and getattr(known, name) != value]
    if other:
        old, new = (", ".join(f"{name} {_text(value[name])}" for name in other) for value in (vars(known), given))
        warnings.warn(
            f"the preprocessing of {model.name} uses {new} as given, where its card or file says {old}",
            PreprocessChangedWarning,
            stacklevel=3,
        )
    preprocess = replace(known or _UNCHANGED, **{**_replaced(given), **given})
    _check_size(preprocess, model)
    return replace(model, preprocess=preprocess)


def _replaced(given: dict[str, Any]) -> dict[str, None]:
    """The steps that the given ones take the place of."""
    if "fit" in given:
        return {"resize": None, "crop": None}
    return {"fit": None} if {"resize", "crop"} & given.keys() else {}


def _check_size(preprocess: Preprocess, model: Model) -> None:
    crop, (height, width) = preprocess.crop, model.input_shape[1:]
    if crop is None or (crop, crop) == (height, width):
        return
    remedy = f"crop to {height}" if height == width else "give --fit stretch or letterbox (fit=) instead"
    raise ModelError(
        f"the preprocessing of {model.name} crops to {crop}x{crop} pixels, but the network reads {height}x{width}; "
        f"{remedy}, or give --input-shape (input_shape=) if the network takes other sizes"
    )


def _text(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(f"{each:g}" for each in value)
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value).lower()
