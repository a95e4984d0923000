"""Choosing a network's weights: trained ones from a card's sources, a file's, or random ones."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Optional
from urllib.parse import urlsplit

import numpy as np

from quantkit.data.preprocess import Preprocess
from quantkit.errors import ModelError, WeightsUnavailable
from quantkit.files import home, sha256_of
from quantkit.models.card import Card, WeightSource
from quantkit.models.download import Patience, fetch, matches
from quantkit.models.fit import Parameters, fit
from quantkit.models.model import Source
from quantkit.models.weight_files import read_weights

# Of mirrors, the hubs' own environment variables tell: MXNET_GLUON_REPO and HF_ENDPOINT.
_STORE = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com"
_HUGGING_FACE = "https://huggingface.co"
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
        ModelError: a file of weights is missing, damaged, or does not fit the network.
    """
    network = card.network or card.name
    if choice == "random":
        return Weights(random(), Source(network, "random"))
    if choice not in ("auto", "pretrained"):
        return from_file(network, Path(choice), wanted)
    if card.params is not None:
        return from_file(network, card.folder / card.params, wanted)
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
    return Weights(params, Source(network, "file", path.name, sha256_of(path)))


def _trained(card: Card, network: str, wanted: Parameters, quiet: bool) -> Weights:
    reasons = []
    patience = Patience(_PATIENCE)
    # What lies on this machine already comes before anything that needs the network.
    for source in sorted(card.sources, key=lambda source: present(card, source) is None):
        path = present(card, source)
        try:
            if path is None:
                path = _downloaded(source, patience, quiet)
            arrays = _readable(path, source)
        except WeightsUnavailable as error:
            reasons.append(f"{source.kind} {source.location}: {error}")
            continue
        params = fit(wanted, arrays, source.location)
        return Weights(params, Source(network, "pretrained", source.location, sha256_of(path)), source.preprocess)
    raise WeightsUnavailable(
        f"no trained weights of {card.name} can be had ({'; '.join(reasons) or 'its card names no source'}); "
        "connect to the network, or give a file with --weights FILE"
    )


def _readable(path: Path, source: WeightSource) -> dict[str, np.ndarray]:
    if source.kind == "file":
        if not path.is_file():
            raise WeightsUnavailable(f"there is no {path}")
        return read_weights(path)
    try:
        return read_weights(path)
    except ModelError as error:
        # Something else than weights was delivered; kept, it would stand in the way for ever.
        path.unlink()
        raise WeightsUnavailable(str(error)) from error


def _cached(source: WeightSource) -> Path:
    """Where a download is kept: by its own name, in a folder by the kind of its source."""
    name = source.location
    if source.kind == "gluoncv":
        name = f"{source.location}.params"
    elif source.kind == "url":
        digest = hashlib.sha256(source.location.encode()).hexdigest()
        name = f"{digest[:16]}/{Path(urlsplit(source.location).path).name}"
    return home() / "weights" / source.kind / name


def present(card: Card, source: WeightSource) -> Optional[Path]:
    """The file of a source on this machine, where there is a sound one."""
    if source.kind == "file":
        path = card.folder / source.location
        if path.is_file() and not matches(path, source.sha256, source.sha1):
            raise ModelError(
                f"{path} has another hash than the card of {card.name} names; restore it, or correct the card"
            )
        return path
    places = [_cached(source)]
    if source.kind == "gluoncv":
        gluon = Path(os.environ.get("MXNET_HOME") or Path.home() / ".mxnet")
        places.append(gluon / "models" / f"{source.location}.params")
    for place in places:
        if place.is_file() and matches(place, source.sha256, source.sha1):
            return place
    return None


def _downloaded(source: WeightSource, patience: Patience, quiet: bool) -> Path:
    path = _cached(source)
    fetch(_address(source), path, patience, sha256=source.sha256, sha1=source.sha1, quiet=quiet)
    return path


def _address(source: WeightSource) -> str:
    if source.kind == "gluoncv":
        store = os.environ.get("MXNET_GLUON_REPO") or _STORE
        return f"{store.rstrip('/')}/gluon/models/{source.location}.zip"
    if source.kind == "huggingface":
        hub = os.environ.get("HF_ENDPOINT") or _HUGGING_FACE
        owner, repository, file = source.location.split("/", 2)
        return f"{hub.rstrip('/')}/{owner}/{repository}/resolve/main/{file}"
    return source.location
