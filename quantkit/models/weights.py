"""Choosing a network's weights: trained ones from a card's sources, a file's, or random ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
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

# Seconds spent on waiting for hosts, all of a card's together.
_PATIENCE = 8.0

Random = Callable[[], dict[str, np.ndarray]]


class RandomWeightsWarning(UserWarning):
    """No trained weights could be reached; the network has random ones and its predictions mean nothing."""


@dataclass(frozen=True, eq=False)
class Weights:
    """Parameters by symbol name, where they came from, and the preprocessing they want if not the card's."""

    params: dict[str, np.ndarray]
    source: Source
    preprocess: Optional[Preprocess] = None


def resolve(card: Card, choice: str, wanted: Parameters, random: Random, quiet: bool = False) -> Weights:
    """The weights that ``choice`` asks for.

    Args:
        card: the network's card.
        choice: ``auto`` (trained; random with a ``RandomWeightsWarning`` where no source can be reached),
            ``pretrained``, ``random``, or the path of a weights file.
        wanted: the network's parameters.
        random: makes random weights.
        quiet: without progress bars.

    Raises:
        WeightsUnavailable: ``pretrained`` was asked for and no source has the weights; every source's reason is named.
        ModelError: a file of weights is missing, damaged, or does not fit the network; or a source delivers another
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
    # What lies on this machine already comes before anything that needs the network.
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
        # Something else than weights was delivered; kept, it would stand in the way for ever.
        forget(stored)
        raise WeightsUnavailable(str(error)) from error
