"""Partial results on disk, so that work that was interrupted goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Optional

from quantkit.cluster.job import Job
from quantkit.cluster.shards import Span
from quantkit.data.batch_stream import BatchStream
from quantkit.data.object_store import is_address, stored_folder
from quantkit.data.record import SHARD_LIST
from quantkit.errors import QuantkitError
from quantkit.files.cache import KINDS, remove_unused, use
from quantkit.files.files import home, writing
from quantkit.files.temporary import remove
from quantkit.files.text import MEBIBYTE, read_bytes

_NAME = re.compile(r"(\d{1,12})-to-(\d{1,12})\.npz")
_LARGEST_FILE = 1024 * MEBIBYTE
_DIGEST_BYTES = hashlib.sha256().digest_size

# Seconds after which nobody will go on with what was interrupted.
_ABANDONED = 14 * 24 * 3600

Stamp = tuple[str, int, int, int, int]


class PartialResults:
    """The partial results of one job on one set of samples, by the shards' places among the samples.

    They lie in a folder under ``QUANTKIT_HOME``, named by a hash of all that determines them: the computation, the
    samples' files with their sizes and times (of objects in a store, their versions), and what all workers have in
    common. Each file begins with the hash of the rest. Nothing is kept of samples whose files are not known.
    """

    def __init__(self, job: Job, stream: BatchStream, common: Mapping[str, object]) -> None:
        """Find those of earlier runs, and remove those that nobody has gone on with for two weeks.

        Args:
            job: the job.
            stream: its samples.
            common: what all workers have in common that results depend on, as JSON values.

        Raises:
            QuantkitError: ``QUANTKIT_HOME`` cannot be written.
        """
        name = job.address if isinstance(job.address, str) or job.address is None else job.address.name
        stamps = None if name is None else _stamps(name)
        self._folder: Optional[Path] = None
        self._batch_size, self._samples = job.batch_size, stream.size or 0
        if stamps is None:
            return
        facts = [
            job.aggregation.key(),
            job.address if isinstance(job.address, str) else repr(job.address),
            stamps,
            repr(job.preparation),
            job.input_shape,
            job.batch_size,
            job.classes,
            _digest(repr(stream.part(0, stream.size or 0).samples.positions).encode()).hex(),
            common,
        ]
        self._folder = home() / "shards" / _digest(json.dumps(facts).encode()).hex()
        use(self._folder)
        remove_unused(entry for entry in KINDS["shards"].entries() if time.time() - entry.used > _ABANDONED)

    def spans(self) -> Iterator[Span]:
        """The shards of earlier runs: whole batches, as far as there are samples."""
        for match in filter(None, map(_NAME.fullmatch, self._names())):
            start, stop = map(int, match.groups())
            whole = start % self._batch_size == 0 and (stop % self._batch_size == 0 or stop == self._samples)
            if start < stop <= self._samples and whole:
                yield start, stop

    def get(self, span: Span) -> Optional[bytes]:
        """What is known of a shard; None if it is nothing, or damaged."""
        if self._folder is None:
            return None
        with suppress(OSError, ValueError):
            content = read_bytes(self._path(self._folder, span), _LARGEST_FILE)
            digest, rest = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
            return rest if digest == _digest(rest) else None
        return None

    def put(self, span: Span, content: bytes) -> None:
        """Keep what ``arrays.to_bytes`` wrote, if that is possible: results do not depend on it."""
        if self._folder is None:
            return
        with suppress(OSError, QuantkitError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with writing(self._path(self._folder, span)) as file:
                file.write(_digest(content))
                file.write(content)

    def clear(self) -> None:
        """Forget them: the whole is known."""
        if self._folder is not None and self._folder.exists():
            remove(self._folder)

    def _names(self) -> list[str]:
        with suppress(OSError):
            return [] if self._folder is None else os.listdir(self._folder)
        return []

    @staticmethod
    def _path(folder: Path, span: Span) -> Path:
        return folder / "{}-to-{}.npz".format(*span)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _stamps(name: str) -> Optional[Sequence[tuple[object, ...]]]:
    """The files that samples come from, with what changes when they do; none for samples that ship with quantkit.

    None if they name files elsewhere, or change at the moment, or their store does not tell when they do.
    """
    if is_address(name):
        return stored_folder(name, SHARD_LIST).stamps
    path = next((part for part in (name, name.rpartition(":")[0]) if part and os.path.exists(part)), None)
    if path is None:
        return []
    if path.lower().endswith(".json"):
        return None
    try:
        return list(_walked(path))
    except OSError:
        return None


def _walked(path: str) -> Iterator[Stamp]:
    """The stamps of a file, or of all files in a folder; links are followed, into each folder once."""
    if not os.path.isdir(path):
        yield _stamp(path)
        return
    seen: set[tuple[int, int]] = set()
    for folder, folders, names in os.walk(path, followlinks=True):
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders.sort()
        yield from (_stamp(os.path.join(folder, name)) for name in sorted(names))


def _stamp(path: str) -> Stamp:
    status = os.stat(path)
    return path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
