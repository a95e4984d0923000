"""Partial results on disk, so that work that was interrupted goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Optional
from zipfile import BadZipFile

from quantkit.cluster.arrays import decode
from quantkit.cluster.job import Job
from quantkit.cluster.node import Versions
from quantkit.data.aggregation import Partial
from quantkit.data.batch_stream import BatchStream
from quantkit.errors import QuantkitError
from quantkit.files.cache import use
from quantkit.files.files import home, writing
from quantkit.files.temporary import remove

_NAME = re.compile(r"(\d+)-(\d+)\.npz")


class PartialResults:
    """The partial results of one job on one set of samples, by the shards' places among the samples.

    They lie in a folder under ``QUANTKIT_HOME``, named by a hash of all that determines them: the computation, the
    samples' files with their sizes and times, and the versions that all workers have.
    """

    def __init__(self, job: Job, stream: BatchStream, versions: Versions) -> None:
        """Find those of earlier runs.

        Raises:
            QuantkitError: ``QUANTKIT_HOME`` cannot be written.
        """
        facts = [
            job.aggregation.key(),
            job.address,
            list(_stamps(job.address or "")),
            repr(job.preparation),
            job.input_shape,
            job.batch_size,
            job.classes,
            list(stream.part(0, stream.size or 0).samples.positions or ()),
            repr(versions),
        ]
        self._folder = home() / "shards" / hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        use(self._folder)

    @property
    def shard_size(self) -> Optional[int]:
        """The size of the shards of an earlier run; None if there was none."""
        sizes = [int(match[2]) - int(match[1]) for match in map(_NAME.fullmatch, self._names()) if match]
        return max(sizes, default=None)

    def get(self, start: int, stop: int) -> Optional[Partial]:
        """What is known of the samples from ``start`` up to ``stop``; None if it is nothing, or damaged."""
        with suppress(OSError, ValueError, KeyError, BadZipFile):
            return decode(self._path(start, stop).read_bytes())
        return None

    def put(self, start: int, stop: int, content: bytes) -> None:
        """Keep what ``arrays.encode`` wrote.

        Raises:
            QuantkitError: it cannot be written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise QuantkitError(
                f"cannot create {self._folder}: {error.strerror or error}; free space, or set QUANTKIT_HOME to a "
                "folder that you may write to"
            ) from error
        with writing(self._path(start, stop)) as file:
            file.write(content)

    def clear(self) -> None:
        """Forget them: the whole is known."""
        if self._folder.exists():
            remove(self._folder)

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._folder)
        except OSError:
            return []

    def _path(self, start: int, stop: int) -> Path:
        return self._folder / f"{start}-{stop}.npz"


def _stamps(address: str) -> Iterator[tuple[str, int, int]]:
    """The files that samples come from, with their sizes and times of change; none for samples without files here."""
    path = next((part for part in (address, address.rpartition(":")[0]) if os.path.exists(part)), None)
    if path is None:
        return
    if not os.path.isdir(path):
        yield _stamp(path)
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        yield from (_stamp(os.path.join(folder, name)) for name in sorted(names))


def _stamp(path: str) -> tuple[str, int, int]:
    status = os.stat(path, follow_symlinks=False)
    return path, status.st_size, status.st_mtime_ns
