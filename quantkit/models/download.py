"""Fetching one file of weights: resumed after interruptions, checked, and put in place whole or not at all."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Optional
from urllib.parse import urlsplit

from quantkit.errors import QuantkitError, WeightsUnavailable
from quantkit.files.files import blocks_of, writing
from quantkit.files.text import read_json
from quantkit.models.address import Address
from quantkit.models.archive import only_member
from quantkit.models.content import Content, content_of
from quantkit.models.transfer import LIMITS, BrokenOff, Head, Limits, Patience, receive

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Delivery:
    """A fetched file: its address, the server's description of it, and its size and hashes."""

    url: str
    head: Head
    content: Content


@dataclass(frozen=True)
class _Begun:
    """The notes on an interrupted download."""

    url: str
    version: str
    total: Optional[int]
    commit: str
    sha256: Optional[str]


def fetch(
    url: Address,
    destination: Path,
    patience: Patience,
    accept: Callable[[Delivery], None],
    *,
    verified: bool,
    limits: Limits = LIMITS,
    quiet: bool = False,
) -> Delivery:
    """Download ``url`` to ``destination``, which appears complete or not at all.

    An interrupted download is kept beside ``destination``, and the next call resumes it. If ``url`` is a ``.zip`` and
    ``destination`` is not, the archive's only file is extracted. Only one process at a time may fetch a destination.

    Args:
        url: the address.
        destination: the path of the file.
        patience: how long to wait for hosts.
        accept: is called with the delivery before the file is put in place, and raises to prevent that.
        verified: whether ``accept`` compares the file with a known hash; see ``receive``.
        limits: the limits of the transfer.
        quiet: without a progress bar.

    Raises:
        WeightsUnavailable: see ``receive``; or the server delivers another file than it states, or a bad archive.
        QuantkitError: the destination cannot be written.
    """
    part = destination.with_name(f".{destination.name}.part")
    notes = destination.with_name(f".{destination.name}.part.json")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        head = _transfer(url, part, notes, patience, limits, verified, quiet)
        try:
            with writing(destination) as file:
                zipped = urlsplit(str(url)).path.endswith(".zip") and destination.suffix != ".zip"
                blocks = only_member(part, str(url), limits.largest) if zipped else blocks_of(part)
                delivery = Delivery(str(url), head, content_of(blocks, file))
                if head.sha256 is not None and not zipped and delivery.content.sha256 != head.sha256:
                    raise WeightsUnavailable(f"{url} delivered another file than its own hub states")
                accept(delivery)
                _discard(part, notes)
        except QuantkitError:
            # A rejected file would be rejected again.
            _discard(part, notes)
            raise
    except OSError as error:
        if error.errno in _NO_ROOM:
            _discard(part, notes)
        raise QuantkitError(
            f"cannot write {destination}: {error.strerror or error}; free space, or set QUANTKIT_HOME to another folder"
        ) from error
    return delivery


def _transfer(
    url: Address, part: Path, notes: Path, patience: Patience, limits: Limits, verified: bool, quiet: bool
) -> Head:
    """Download ``url`` to ``part``, continuing an interrupted attempt if possible."""
    begun = _begun(notes, url)
    # Without a hash nothing shows whether two halves belong together.
    if begun is None or not begun.version or not (verified or begun.sha256) or not part.is_file():
        _discard(part, notes)
        begun, have = None, 0
    else:
        have = part.stat().st_size
        if have == begun.total:
            return Head(have, begun.total, begun.version, begun.commit, begun.sha256)
    try:
        head, blocks = receive(url, have, begun.version if begun else "", patience, limits, verified)
        with writing(notes) as file:
            state = _Begun(str(url), head.version, head.total, head.commit, head.sha256)
            file.write(json.dumps(asdict(state)).encode())
        with part.open("r+b" if head.begin else "wb") as file, _bar(url, head, quiet) as bar:
            file.seek(head.begin)
            for block in blocks:
                file.write(block)
                bar.update(len(block))
            size = file.tell()
    except BrokenOff:
        raise
    except WeightsUnavailable:
        _discard(part, notes)
        raise
    if head.total is not None and size != head.total:
        raise BrokenOff(f"{url} ended after {size} of {head.total} bytes")
    return replace(head, total=size)


def _bar(url: Address, head: Head, quiet: bool) -> Any:
    from tqdm import tqdm

    return tqdm(
        total=head.total,
        initial=head.begin,
        unit="B",
        unit_scale=True,
        desc=Path(urlsplit(str(url)).path).name,
        disable=quiet or None,
    )


def _begun(notes: Path, url: Address) -> Optional[_Begun]:
    """The notes on an interrupted download of ``url``; None if there is none that can be resumed."""
    try:
        begun = _Begun(**read_json(notes))
        sound = (
            all(isinstance(text, str) for text in (begun.url, begun.version, begun.commit))
            and (begun.total is None or (type(begun.total) is int and begun.total >= 0))
            and (begun.sha256 is None or re.fullmatch("[0-9a-f]{64}", begun.sha256) is not None)
        )
    except (OSError, ValueError, TypeError):
        return None
    return begun if sound and begun.url == str(url) else None


def _discard(part: Path, notes: Path) -> None:
    part.unlink(missing_ok=True)
    notes.unlink(missing_ok=True)
