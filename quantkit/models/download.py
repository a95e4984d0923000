"""Fetching files from the network: with time-outs, progress, resumption and a check of their hash."""

from __future__ import annotations

import fcntl
import hashlib
import os
import queue
import shutil
import threading
import time
import zipfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Optional, Union
from urllib.parse import urlsplit

from quantkit.errors import QuantkitError, WeightsUnavailable

if TYPE_CHECKING:
    import requests

# Seconds: to connect, until the answer begins (names looked up and redirections followed), and between two blocks.
_CONNECT = 3.0
_ONE_ANSWER = 4.0
_SILENCE = 20.0
_BLOCK = 1 << 16


class Patience:
    """How long one goes on waiting for hosts to answer, all of them together, and which kept silent."""

    def __init__(self, seconds: float) -> None:
        """Wait ``seconds`` altogether."""
        self._left = seconds
        self._silent: dict[str, str] = {}

    def wait_for(self, host: str) -> float:
        """Seconds that ``host`` may take to answer; WeightsUnavailable where waiting for it is of no use."""
        if host in self._silent:
            raise WeightsUnavailable(self._silent[host])
        if self._left <= 0.0:
            raise WeightsUnavailable(f"{host} was not tried: no time was left after the hosts before it")
        return min(_ONE_ANSWER, self._left)

    def spend(self, seconds: float) -> None:
        """Count time that was spent waiting."""
        self._left -= seconds

    def give_up(self, host: str, reason: str) -> WeightsUnavailable:
        """Never wait for ``host`` again; the error to raise."""
        self._silent[host] = f"{host} cannot be reached ({reason})"
        return WeightsUnavailable(self._silent[host])


def fetch(
    url: str,
    destination: Path,
    patience: Patience,
    *,
    sha256: Optional[str] = None,
    sha1: Optional[str] = None,
    quiet: bool = False,
) -> None:
    """Download ``url`` to ``destination``, which appears complete or not at all.

    A broken download is kept in ``destination`` + ``.part`` and resumed by the next call. Of a ``.zip``
    whose only file is wanted under another ending, that file is taken out. The hashes are those of
    ``destination``.

    Raises:
        WeightsUnavailable: the host cannot be reached within ``patience``, falls silent, has no such file, or
            delivers one of another hash or size.
        QuantkitError: the destination cannot be written.
    """
    part = destination.with_name(destination.name + ".part")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        _transfer(url, part, patience, quiet)
        if url.endswith(".zip") and destination.suffix != ".zip":
            _unpack(part, url)
        if not matches(part, sha256, sha1):
            part.unlink()
            raise WeightsUnavailable(f"{url} delivered a file of another hash than the card names")
        os.replace(part, destination)
    except OSError as error:
        raise QuantkitError(
            f"cannot write {destination}: {error.strerror or error}; free space, or set QUANTKIT_HOME to another folder"
        ) from error


def matches(path: Path, sha256: Optional[str], sha1: Optional[str]) -> bool:
    """Whether a file has the given hashes; true where none is given."""
    for name, wanted in (("sha256", sha256), ("sha1", sha1)):
        if wanted is not None:
            digest = hashlib.new(name)
            with path.open("rb") as file:
                for block in iter(lambda: file.read(1 << 20), b""):
                    digest.update(block)
            if digest.hexdigest() != wanted:
                return False
    return True


def _transfer(url: str, part: Path, patience: Patience, quiet: bool) -> None:
    """Bring ``part`` to the whole content of ``url``, going on where an earlier attempt broke off."""
    import requests
    from tqdm import tqdm

    version = part.with_name(part.name + ".version")
    with part.open("ab") as file:
        _lock(file, url)
        have = file.tell()
        headers = {"Accept-Encoding": "identity"}
        if have and version.exists():
            # Unless the file is still the one begun, the server sends the new one whole.
            headers.update({"Range": f"bytes={have}-", "If-Range": version.read_text(encoding="utf-8")})
        with _answer(url, headers, patience) as answer:
            if answer.status_code not in (200, 206):
                version.unlink(missing_ok=True)
                raise WeightsUnavailable(f"{url} answers {answer.status_code} {answer.reason}")
            if answer.status_code == 200:
                file.truncate(0)
                have = 0
            version.write_text(
                answer.headers.get("ETag") or answer.headers.get("Last-Modified") or "", encoding="utf-8"
            )
            total = have + int(answer.headers["Content-Length"]) if "Content-Length" in answer.headers else None
            bar = tqdm(
                total=total,
                initial=have,
                unit="B",
                unit_scale=True,
                desc=Path(urlsplit(url).path).name,
                disable=quiet or None,
            )
            with bar:
                try:
                    for block in answer.iter_content(_BLOCK):
                        file.write(block)
                        bar.update(len(block))
                except requests.RequestException as error:
                    raise WeightsUnavailable(
                        f"{url} broke off after {file.tell()} of {total} bytes; the next attempt goes on from there"
                    ) from error
            if total is not None and file.tell() != total:
                raise WeightsUnavailable(f"{url} ended after {file.tell()} of {total} bytes")
    version.unlink(missing_ok=True)


def _lock(file: IO[bytes], url: str) -> None:
    """Keep two processes from writing into one file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise WeightsUnavailable(f"another process is fetching {url}; wait for it") from error


def _answer(url: str, headers: dict[str, str], patience: Patience) -> requests.Response:
    """The server's answer, its content not yet read.

    The request runs in a thread of its own, because looking up a name takes no time-out.
    """
    import requests

    host = urlsplit(url).netloc
    seconds = patience.wait_for(host)
    answers: queue.SimpleQueue[Union[requests.Response, requests.RequestException]] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(requests.get(url, headers=headers, stream=True, timeout=(_CONNECT, _SILENCE)))
        except requests.RequestException as error:
            answers.put(error)

    began = time.monotonic()
    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise patience.give_up(host, f"no answer within {seconds:.0f} s") from None
    finally:
        patience.spend(time.monotonic() - began)
    if isinstance(answer, requests.RequestException):
        raise patience.give_up(host, type(answer).__name__) from answer
    return answer


def _unpack(archive: Path, url: str) -> None:
    """Replace a zip archive by the one file in it."""
    single = archive.with_name(archive.name + ".file")
    try:
        with zipfile.ZipFile(archive) as opened:
            (member,) = opened.infolist()
            with opened.open(member) as source, single.open("wb") as target:
                shutil.copyfileobj(source, target)
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError) as error:
        archive.unlink()
        single.unlink(missing_ok=True)
        raise WeightsUnavailable(f"{url} delivered a damaged archive ({error})") from error
    os.replace(single, archive)
