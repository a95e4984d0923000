"""Choosing a network's weights: trained ones from a card's sources, those of a file, or random ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import numpy as np

from quantkit.data.preprocess import Preprocess
from quantkit.errors import ModelError, WeightsUnavailable
from quantkit.files.files import as_text, sha256_of
from quantkit.models.card import Card
from quantkit.models.fit import Parameters, fit
from quantkit.models.model import Source
from quantkit.models.transfer import Patience
from quantkit.models.weight_files import read_weights
from quantkit.models.weight_store import Stored, forget, obtain, on_disk, trust

# Seconds of waiting for all hosts of a card together.
_PATIENCE = 8.0

Random = Callable[[], dict[str, np.ndarray]]


class RandomWeightsWarning(UserWarning):
    """No trained weights could be reached; the network has random ones and its predictions mean nothing."""


@dataclass(frozen=True, eq=False)
class Weights:
    """Parameters by symbol name, their source, and the preprocessing they need if it is not the card's."""

    params: dict[str, np.ndarray] = field(repr=False)
    source: Source
    preprocess: Optional[Preprocess] = None


def resolve(card: Card, choice: str, wanted: Parameters, random: Random, quiet: bool = False) -> Weights:
    """The weights that ``choice`` asks for.

    Args:
        card: the network's card.
        choice: ``auto`` (trained; random with a ``RandomWeightsWarning`` if no source can be reached),
            ``pretrained``, ``random``, or the path of a weights file.
        wanted: the network's parameters.
        random: makes random weights.
        quiet: without progress bars.

    Raises:
        WeightsUnavailable: ``choice`` is ``pretrained`` and no source has the weights; the message has each reason.
        ModelError: a weights file is missing, damaged, or does not fit the network; or a source delivers another
            file than the one that was first trusted.
        QuantkitError: ``QUANTKIT_HOME`` cannot be written.
    """
    network = card.network or card.name
    if choice == "random":
        return Weights(random(), Source(network, "random"))
    if choice not in ("auto", "pretrained"):
        return from_file(network, Path(choice), wanted)
    if card.params is not None:
        return from_file(network, card.file(card.params), wanted)
    try:
        return _trained(card, network, wanted, quiet)
    except WeightsUnavailable as error:
        if choice == "pretrained":
            raise
        warnings.warn(f"{error}; RANDOM weights are used: predictions mean nothing", RandomWeightsWarning, stacklevel=3)
        return Weights(random(), Source(network, "random"))


def from_file(network: str, path: Path, wanted: Parameters) -> Weights:
    """The weights of a local file.

    Raises:
        ModelError: the file is missing, damaged, or does not fit the network.
    """
    params = fit(wanted, read_weights(path), str(path))
    return Weights(params, Source(network, "file", as_text(path.name), sha256_of(path)))


def _trained(card: Card, network: str, wanted: Parameters, quiet: bool) -> Weights:
    reasons = []
    misfit: Optional[ModelError] = None
    patience = Patience(_PATIENCE)
    # Files on this machine come before any that need the network.
    for source in sorted(card.sources, key=lambda source: on_disk(card, source) is None):
        try:
            stored = obtain(card, source, patience, quiet=quiet)
            arrays = _read(stored)
        except WeightsUnavailable as error:
            reasons.append(f"{source.kind} {source.location}: {error}")
            continue
        try:
            params = fit(wanted, arrays, source.location)
        except ModelError as error:
            if source.kind == "file":
                raise
            reasons.append(f"{source.kind} {error}")
            misfit = error
            continue
        trust(stored)
        origin = Source(network, "pretrained", source.location, stored.content.sha256)
        return Weights(params, origin, source.preprocess)
    if misfit is not None:
        raise ModelError("; ".join(reasons)) from misfit
    raise WeightsUnavailable(
        f"no trained weights of {card.name} can be had ({'; '.join(reasons) or 'its card names no source'}); "
        "connect to the network, or give a file with --weights FILE"
    )


def _read(stored: Stored) -> dict[str, np.ndarray]:
    try:
        return read_weights(stored.path)
    except ModelError as error:
        if stored.source.kind == "file":
            raise
        # The delivery is not weights; if it were kept, every later attempt would fail.
        forget(stored)
        raise WeightsUnavailable(str(error)) from error
