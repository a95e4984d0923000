"""The weights of a card's source on this machine: in ``QUANTKIT_HOME/weights``, fetched if they are not there yet."""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional
from urllib.parse import urlsplit

from quantkit.errors import ModelError, QuantkitError, WeightsUnavailable
from quantkit.files.cache import use
from quantkit.files.files import blocks_of, home, locked
from quantkit.models.address import Address
from quantkit.models.card import Card, WeightSource
from quantkit.models.content import Content, content_of
from quantkit.models.download import Delivery, fetch
from quantkit.models.transfer import LIMITS, Limits, Patience
from quantkit.models.trust import Record, new_record, read_record, record_file, write_record

# The hubs' own environment variables name mirrors: MXNET_GLUON_REPO and HF_ENDPOINT.
_STORE = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com"
_HUGGING_FACE = "https://huggingface.co"


class DamagedWeightsWarning(UserWarning):
    """A weights file on this machine does not have the expected hash and is fetched again."""


class TrustedWeightsWarning(UserWarning):
    """The hash of a weights file is not published: the present file is trusted from now on."""


@dataclass(frozen=True)
class Stored:
    """A weights file on this machine, and its content when it was checked."""

    source: WeightSource
    path: Path
    content: Content
    delivery: Optional[Delivery] = None


def on_disk(card: Card, source: WeightSource) -> Optional[Path]:
    """The path of a source's file on this machine, unchecked; None if there is none."""
    return next((place for place in _places(card, source) if place.is_file()), None)


def obtain(
    card: Card,
    source: WeightSource,
    patience: Patience,
    limits: Limits = LIMITS,
    quiet: bool = False,
) -> Stored:
    """The file of a source, checked against the card's hashes or the record of its first use.

    Processes that want the same file wait for the first and use what it has fetched. A damaged file is fetched again.

    Raises:
        WeightsUnavailable: the file is not here and cannot be fetched, or does not match the card.
        ModelError: a local file does not match the card, or a fetched file does not match the first trusted one.
        QuantkitError: ``QUANTKIT_HOME`` cannot be written.
    """
    if source.kind == "file":
        return _local(card, source)
    path = cached(source)
    use(path)
    stored = _stored(card, source)
    if stored is not None:
        return stored

    def busy() -> None:
        if not quiet:
            print(f"{path.name}: waiting for another process that fetches it", file=sys.stderr, flush=True)

    with locked(path.with_name(f".{path.name}.lock"), busy):
        return _stored(card, source, tell=True) or _fetched(source, path, patience, limits, quiet)


def trust(stored: Stored) -> None:
    """Record a file that proved to be the network's weights, unless the card has its hash.

    The first time, a ``TrustedWeightsWarning`` tells the user.
    """
    source, path = stored.source, record_file(cached(stored.source))
    if source.kind == "file" or _pinned(source) or read_record(path) is not None:
        return
    record = new_record(_name(source), stored.content)
    if stored.delivery is not None:
        head = stored.delivery.head
        record = replace(record, url=stored.delivery.url, revision=head.commit, etag=head.version)
    try:
        write_record(path, record)
        kept = f"and held to that: the record is {path}"
    except QuantkitError as error:
        kept = f"but that cannot be recorded ({error})"
    revision = f", revision {record.revision}" if record.revision else ""
    warnings.warn(
        f"{source.location}: no hash of this file is published; the one that is here now "
        f"(SHA-256 {record.sha256}{revision}) is trusted from now on, {kept}",
        TrustedWeightsWarning,
        stacklevel=4,
    )


def forget(stored: Stored) -> None:
    """Remove a fetched file that proved not to be weights, unless it has the hash that the card names."""
    if stored.path == cached(stored.source) and not _pinned(stored.source):
        stored.path.unlink(missing_ok=True)


def cached(source: WeightSource) -> Path:
    """The path where a download is kept: by name and revision, in a folder for the kind of its source."""
    name = source.location
    if source.kind == "gluoncv":
        name = f"{source.location}.params"
    elif source.kind == "huggingface":
        owner, repository, file = source.location.split("/", 2)
        name = f"{owner}/{repository}/{source.revision or 'main'}/{file}"
    elif source.kind == "url":
        digest = hashlib.sha256(source.location.encode()).hexdigest()
        name = f"{digest[:16]}/{Path(urlsplit(source.location).path).name}"
    return home() / "weights" / source.kind / name


def _local(card: Card, source: WeightSource) -> Stored:
    path = card.file(source.location)
    if not path.is_file():
        raise WeightsUnavailable(f"there is no {path}")
    content = _content(path)
    if _other_than_card(source, content):
        raise ModelError(f"{path} has another hash than the card of {card.name} names; restore it, or correct the card")
    return Stored(source, path, content)


def _places(card: Card, source: WeightSource) -> list[Path]:
    if source.kind == "file":
        return [card.file(source.location)]
    places = [cached(source)]
    if source.kind == "gluoncv":
        # Without a home directory there is no GluonCV store in it either.
        with suppress(RuntimeError):
            gluon = Path(os.environ.get("MXNET_HOME") or Path.home() / ".mxnet")
            places.append(gluon / "models" / f"{source.location}.params")
    return places


def _stored(card: Card, source: WeightSource, tell: bool = False) -> Optional[Stored]:
    """The sound file of a source on this machine; with ``tell`` a warning names damaged ones."""
    record = None if _pinned(source) else read_record(record_file(cached(source)))
    for place in _places(card, source):
        if not place.is_file():
            continue
        content = _content(place)
        problem = _other_than_card(source, content) or _other_than_record(record, content)
        if not problem:
            return Stored(source, place, content)
        if tell:
            warnings.warn(
                f"{place} is damaged or of another version: {problem}; it is left out and fetched again",
                DamagedWeightsWarning,
                stacklevel=5,
            )
    return None


def _fetched(source: WeightSource, path: Path, patience: Patience, limits: Limits, quiet: bool) -> Stored:
    url = _address(source)
    known = record_file(path)
    record = None if _pinned(source) else read_record(known)

    def accept(delivery: Delivery) -> None:
        problem = _other_than_card(source, delivery.content)
        if problem:
            raise WeightsUnavailable(f"{url} delivered a file of another hash or size than the card names: {problem}")
        if record is not None and _other_than_record(record, delivery.content):
            raise ModelError(
                f"{url} delivers another file than the one that was trusted on {record.date} "
                f"(SHA-256 then {record.sha256}{_of(record.revision)}, now {delivery.content.sha256}"
                f"{_of(delivery.head.commit)}); if its publisher replaced it on purpose, delete {known}; "
                "otherwise give weights that you trust with --weights FILE"
            )

    if source.size is not None and not urlsplit(str(url)).path.endswith(".zip"):
        limits = replace(limits, largest=min(limits.largest, source.size))
    delivery = fetch(url, path, patience, accept, verified=_pinned(source), limits=limits, quiet=quiet)
    return Stored(source, path, delivery.content, delivery)


def _content(path: Path) -> Content:
    try:
        return content_of(blocks_of(path))
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}; check its permissions") from error


def _pinned(source: WeightSource) -> bool:
    return source.sha256 is not None or source.sha1 is not None


def _other_than_card(source: WeightSource, content: Content) -> str:
    """How a file differs from the card's description; empty if it does not."""
    for what, wanted, actual in (
        ("size", source.size, content.size),
        ("SHA-256", source.sha256, content.sha256),
        ("SHA-1", source.sha1, content.sha1),
    ):
        if wanted is not None and wanted != actual:
            return f"its {what} is {actual}, not {wanted}"
    return ""


def _other_than_record(record: Optional[Record], content: Content) -> str:
    if record is None or record.content == (content.size, content.sha256):
        return ""
    return f"its SHA-256 is {content.sha256}, not {record.sha256} as on {record.date}"


def _of(revision: str) -> str:
    return f" of revision {revision}" if revision else ""


def _name(source: WeightSource) -> str:
    return f"{source.kind} {source.location}"


def _address(source: WeightSource) -> Address:
    if source.kind == "gluoncv":
        store = os.environ.get("MXNET_GLUON_REPO") or _STORE
        return Address(f"{store.rstrip('/')}/gluon/models/{source.location}.zip")
    if source.kind == "huggingface":
        hub = os.environ.get("HF_ENDPOINT") or _HUGGING_FACE
        owner, repository, file = source.location.split("/", 2)
        return Address(f"{hub.rstrip('/')}/{owner}/{repository}/resolve/{source.revision or 'main'}/{file}")
    return Address(source.location)
