"""Fetching one file of weights: resumed where it broke off, checked, and put in its place whole or not at all."""

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
    """What was fetched: from where, what the server said of it, and what it is."""

    url: str
    head: Head
    content: Content


@dataclass(frozen=True)
class _Begun:
    """What is remembered of a download that broke off."""

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

    A broken download is kept beside ``destination`` and resumed by the next call. Of a ``.zip`` whose only file is
    wanted under another ending, that file is taken out. Only one process may do this for one destination at a time.

    Args:
        url: the address.
        destination: where the file shall lie.
        patience: how long to wait for hosts.
        accept: is shown what was fetched before it takes its place, and raises where it must not.
        verified: whether ``accept`` holds the file to a known hash; see ``receive``.
        limits: how much the transfer may take.
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
            # What is refused now would be refused again.
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
    """Bring ``part`` to the whole content of ``url``, going on where an earlier attempt broke off."""
    begun = _begun(notes, url)
    # Without a hash nobody can tell whether two halves belong together.
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
    """What is known of a broken download of ``url``; None where there is none that can be gone on with."""
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
