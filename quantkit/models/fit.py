"""Matching the arrays of a weights file to a network's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from quantkit.errors import ModelError
from quantkit.formats.mxnet.params import check_finite, plain_names, shortlist
from quantkit.models.torch_layout import from_torch, is_torch_layout


@dataclass(frozen=True)
class Parameters:
    """The parameters of a network: shapes by symbol name and, if known, places in the gluon block by symbol name.

    ``states`` are the initial states of recurrent layers, which are zero instead of parameters. ``constants`` are
    values of parameters that no training changes, for files that lack them; ``unused`` are names of arrays in files of
    the whole block that the network does not read.
    """

    shapes: Mapping[str, tuple[int, ...]]
    structured: Mapping[str, str] = field(default_factory=dict)
    states: tuple[str, ...] = ()
    constants: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    unused: frozenset[str] = frozenset()


def fit(wanted: Parameters, arrays: Mapping[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
    """Give every parameter of a network its array, in float32.

    The arrays may have the symbol's names (with or without ``arg:`` and ``aux:``, under any block
    prefix), gluon's structured names, or torch's.

    Raises:
        ModelError: an array is missing, superfluous, of another shape, not floating-point, or not finite; or a state
            is not zero.
    """
    plain = plain_names(arrays, where)
    named = _by_symbol_name(wanted, {name: plain[name] for name in plain if name not in wanted.unused}, where)
    named = {**wanted.constants, **named}
    missing = [name for name in wanted.shapes if name not in named]
    if missing:
        lacking = shortlist(map(repr, missing), "more parameters")
        raise ModelError(f"{where} lacks {lacking} of the network; give the weights that belong to it")
    if given := [name for name in wanted.states if np.any(named.get(name, 0))]:
        raise ModelError(
            f"{where} holds values of the initial states {', '.join(map(repr, given))}, and networks begin at states "
            "of zero here; train and export the network with states of zero"
        )
    extra = [name for name in named if name not in wanted.shapes and name not in wanted.states]
    if extra:
        beyond = shortlist(map(repr, extra), "more parameters")
        raise ModelError(f"{where} holds {beyond}, which the network lacks; give the weights that belong to it")
    fitted = {name: _float32(name, named[name], where) for name in wanted.shapes}
    for name, shape in wanted.shapes.items():
        if fitted[name].shape != tuple(shape):
            raise ModelError(
                f"{where}: {name!r} has shape {fitted[name].shape}, the network wants {tuple(shape)}; "
                "the weights are of another network, or made for another input shape or number of classes"
            )
    check_finite(fitted, where)
    return fitted


def _by_symbol_name(wanted: Parameters, arrays: Mapping[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
    places = {place: wanted.shapes[name] for name, place in wanted.structured.items()}
    if places and is_torch_layout(arrays) and set(arrays) != set(places):
        arrays = from_torch(places, arrays, where)
    namings = [
        {name: name for name in wanted.shapes},
        {place: name for name, place in wanted.structured.items()},
    ]
    own, theirs = _prefix(wanted.shapes), _prefix(arrays)
    namings.append({theirs + name[len(own) :]: name for name in wanted.shapes})
    # The naming that matches most arrays; the others are reported under the names they have.
    best = max(namings, key=lambda naming: sum(name in naming for name in arrays))
    named: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if named.setdefault(best.get(name, name), array) is not array:
            raise ModelError(f"{where} holds {best.get(name, name)!r} twice, by two names; give a file with one naming")
    return named


def _prefix(names: Mapping[str, object]) -> str:
    """The block prefix (``resnetv10_``) that all names share; empty if there is none."""
    low, high = min(names, default=""), max(names, default="")
    shared = next((place for place, (a, b) in enumerate(zip(low, high)) if a != b), len(low))
    return low[: low.rfind("_", 0, shared) + 1]


def _float32(name: str, array: np.ndarray, where: str) -> np.ndarray:
    if array.dtype.kind != "f":
        raise ModelError(
            f"{where}: {name!r} is {array.dtype}, not floating-point; "
            "give the FP32 network that an INT8 one was made from"
        )
    return array.astype(np.float32, copy=False)
