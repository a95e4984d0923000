"""Folders in object stores, by addresses such as ``s3://bucket/folder``: whatever fsspec knows and is installed."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Optional

from quantkit.data.read_ahead import RangeFile, ReadAhead
from quantkit.errors import DataError, ExtraMissing, SamplesUnavailable
from quantkit.extras import require, using
from quantkit.files.files import as_text

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_WHAT = "samples in object stores"

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# Secrets may hold any character. In addresses of the web, names are secrets, too.
_PASSWORD = re.compile(r"[^/]*://(.*:.*@|(?<=http://)[^/]*@|(?<=https://)[^/]*@)", re.DOTALL | re.IGNORECASE)

# Their names in fsspec; the extra brings what these need.
_OF_S3 = ("s3", "s3a")
_IN_THIS_PROCESS = "memory"

# Seconds that a request may take, retries included.
_PATIENCE = 120

# Characters of a store's own words that a message shows.
_SHOWN = 300

# What stores call that which changes with an object: hashes or numbers of its content, and times.
_VERSIONS = ("ETag", "etag", "md5Hash", "generation", "VersionId")
_TIMES = ("LastModified", "last_modified", "mtime", "modified", "updated")

Stamp = tuple[str, int, str]


def is_address(spec: str) -> bool:
    """Whether a name of sample data is the address of an object store; no file is looked for then."""
    return _ADDRESS.match(spec) is not None


@dataclass(frozen=True)
class StoredFolder:
    """The files of a folder in an object store, as they were when it was listed.

    Attributes:
        address: the folder's.
        stamps: what tells that no file has changed since; None: the store does not tell.
        sizes: the bytes of each file; None where the store does not tell.
    """

    address: str
    stamps: Optional[tuple[Stamp, ...]]
    sizes: Mapping[str, Optional[int]] = field(compare=False, repr=False)
    _objects: _Objects = field(compare=False, repr=False)
    _ahead: ReadAhead = field(compare=False, repr=False)

    @property
    def name(self) -> str:
        """See ``ShardFiles``."""
        return as_text(self.address.rstrip("/").rpartition("/")[2])

    @property
    def shared(self) -> bool:
        """Whether other processes find the files at the same address."""
        return not self.address.startswith(f"{_IN_THIS_PROCESS}://")

    def where(self, file: str) -> str:
        """See ``ShardFiles``."""
        return self._objects.where(file)

    def size(self, file: str) -> int:
        """See ``ShardFiles``."""
        if file not in self.sizes:
            raise _absent(self.where(file))
        size = self.sizes[file]
        if size is None:
            raise SamplesUnavailable(
                f"the store does not tell how large {self.where(file)} is; give a store that does, or a local folder"
            )
        return size

    def content(self, file: str, most: int) -> bytes:
        """See ``ShardFiles``."""
        size = self.size(file)
        if size > most:
            raise OSError(errno.EFBIG, f"it has more than {most} bytes", self.where(file))
        return self._ahead.read(file, 0, size, size)

    @contextmanager
    def opened(self, file: str, start: int, end: Optional[int]) -> Iterator[IO[bytes]]:
        """See ``ShardFiles``."""
        yield RangeFile(self._ahead, file, self.size(file), start, end)  # type: ignore[misc]


def stored_folder(address: str, marker: str) -> StoredFolder:
    """The folder at an address, listed anew; ``marker`` is a file that makes it one of the kind that is wanted.

    Raises:
        DataError: there is no such folder, it has no such file, or may not be read.
        SamplesUnavailable: the store cannot be reached, or fails.
        ExtraMissing: a package is not installed that the protocol needs.
    """
    objects = _Objects(address.rstrip("/"), *_opened(address))
    entries = objects.listed(marker)
    sizes = {name: None if entry.get("size") is None else int(entry["size"]) for name, entry in entries.items()}
    return StoredFolder(objects.address, _stamps(entries), sizes, objects, ReadAhead(objects.fetch))


@dataclass(frozen=True, eq=False)
class _Objects:
    """Requests to a store about the objects in a folder; their failures are quantkit's errors, or ``OSError``."""

    address: str
    store: AbstractFileSystem
    root: str

    def where(self, file: str) -> str:
        return f"{self.address}/{file}"

    def listed(self, marker: str) -> dict[str, Mapping[str, Any]]:
        """The objects in the folder, without those in folders below it, by name; ``marker`` must be one of them."""
        self.store.invalidate_cache(self.root)
        try:
            # First, as other folders may hold any number of objects.
            with _answering(self.where(marker)):
                self._ask("info", self._path(marker))
            with _answering(self.address):
                entries = self._ask("ls", self.root, detail=True)
        except FileNotFoundError as error:
            raise DataError(
                f"there is no folder of shards at {self.address}: it has no {marker}, or is not there; give the "
                "address of one. Images have to be packed: quantkit pack FOLDER --out shards, and copy that there"
            ) from error
        return {entry["name"].rpartition("/")[2]: entry for entry in entries if entry["type"] == "file"}

    def fetch(self, file: str, start: int, end: int) -> bytes:
        """The bytes of an object from ``start`` up to ``end``."""
        with _answering(self.where(file)):
            content: bytes = self._ask("cat_file", self._path(file), start=start, end=end)
        if len(content) != end - start:
            raise DataError(f"{self.where(file)} has changed since the folder was opened; run the command again")
        return content

    def _path(self, file: str) -> str:
        return f"{self.root.rstrip('/')}/{file}"

    def _ask(self, request: str, *arguments: Any, **options: Any) -> Any:
        if not self.store.async_impl:
            return getattr(self.store, request)(*arguments, **options)
        from fsspec.asyn import sync

        return sync(self.store.loop, getattr(self.store, f"_{request}"), *arguments, timeout=_PATIENCE, **options)


def _opened(address: str) -> tuple[AbstractFileSystem, str]:
    """The store of an address, and the path in it."""
    if _PASSWORD.match(address):
        raise DataError(
            "an address holds a password; leave it out, and set credentials as the store's own tools expect them "
            "(AWS_ACCESS_KEY_ID, ~/.aws, ...)"
        )
    # Chains of addresses would open what an object says.
    if "::" in address:
        raise DataError(f"{address} is a chain of addresses; give one, such as s3://bucket/folder")
    with using("object-store", _WHAT):
        from fsspec import available_protocols
        from fsspec.core import url_to_fs
    protocol = address.partition("://")[0]
    if not address.removeprefix(f"{protocol}://").strip("/"):
        raise DataError(f"{address} names no folder; give one, such as s3://bucket/folder")
    if protocol not in available_protocols():
        raise DataError(f"{address} has the unknown protocol {protocol!r}; known are s3, gs, hdfs and others of fsspec")
    if protocol in _OF_S3:
        require("s3", "s3fs", _WHAT)
    with _answering(address):
        store, root = url_to_fs(address)
    return store, root


@contextmanager
def _answering(where: str) -> Iterator[None]:
    """Ask a store about ``where`` within this.

    Raises:
        FileNotFoundError: it is not there.
        DataError: it may not be read.
        SamplesUnavailable: the store cannot be reached, or fails.
        ExtraMissing: a package is not installed that the protocol needs.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise _absent(where) from error
    except TimeoutError as error:
        raise SamplesUnavailable(
            f"{where} cannot be read: the store did not answer in time; try again, or see whether it can be reached"
        ) from error
    except ImportError as error:
        raise ExtraMissing(f"{where} needs a further package ({error}); install it with pip") from error
    # Libraries of stores raise exceptions of their own, and document none.
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:_SHOWN]
        if isinstance(error, PermissionError) or "Credential" in type(error).__name__:
            raise DataError(
                f"{where} may not be read ({reason}); set credentials that may, as the store's own tools expect them"
            ) from error
        raise SamplesUnavailable(
            f"{where} cannot be read: {reason}; see whether the store can be reached, and try again"
        ) from error


def _absent(where: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), where)


def _stamps(entries: Mapping[str, Mapping[str, Any]]) -> Optional[tuple[Stamp, ...]]:
    """The names of objects with their sizes and versions; None where one has no version."""
    stamps = []
    for name, entry in sorted(entries.items()):
        told = [str(entry[key]) for key in (*_VERSIONS, *_TIMES) if entry.get(key)]
        if not told:
            return None
        stamps.append((name, int(entry.get("size") or 0), " ".join(told)))
    return tuple(stamps)
