"""Layouts: the axes of a batch of inputs, in order, as letters."""

from __future__ import annotations

from typing import Literal, Optional, get_args

from quantkit.errors import ModelError

SequenceLayout = Literal["NTC", "NT", "TNC", "TN"]
"""N: the samples of a batch. T: steps. C: features, which token ids do not have."""

SEQUENCE_LAYOUTS: tuple[SequenceLayout, ...] = get_args(SequenceLayout)

InputLayout = Literal["NC", "NT", "NTC", "NCHW", "NCDHW"]
"""The layouts that every stage reads: batches first."""

FEATURE_LAYOUTS: tuple[InputLayout, ...] = ("NC", "NTC")
"""Vectors and sequences of them: the last axis is that of features, which may be of different units."""

_ARRAYS: dict[int, InputLayout] = {1: "NC", 2: "NTC", 3: "NCHW", 4: "NCDHW"}


def layout_of(input_shape: tuple[int, ...], tokens: bool) -> InputLayout:
    """The layout of inputs of this shape, without the batch; ``tokens`` says whether they are token ids."""
    return "NT" if tokens and len(input_shape) == 1 else _ARRAYS[len(input_shape)]


def is_time_major(layout: Optional[str]) -> bool:
    """Whether steps come before the batch."""
    return layout in ("TNC", "TN")


def checked_layout(layout: Optional[str], input_shape: tuple[int, ...]) -> Optional[SequenceLayout]:
    """A layout that the user gave, with its input shape without the batch.

    Raises:
        ModelError: it is unknown, or has more or fewer axes than the shape.
    """
    if layout is None:
        return None
    for known in SEQUENCE_LAYOUTS:
        if layout == known:
            if len(known) != len(input_shape) + 1:
                raise ModelError(
                    f"layout {known} is for inputs of shape {_SHAPES[len(known)]} without the batch, not "
                    f"{input_shape}; give both for the same input"
                )
            return known
    raise ModelError(
        f"layout {layout!r} is unknown; give NTC or NT (batch, steps, ...), TNC or TN (steps, batch, ...): sequences "
        "of features or of token ids"
    )


def check_no_layout(layout: Optional[str], where: str) -> None:
    """Make sure that no layout is given for a network with several inputs.

    Raises:
        ModelError: one is.
    """
    if layout is not None:
        raise ModelError(f"{where} has several inputs, which all begin with the batch; leave the layout out")


_SHAPES = {2: "(steps,)", 3: "(steps, features)"}
