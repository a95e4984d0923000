"""Loaders by kinds of damage: each ends in an error of quantkit's, or in a result, within bounded time and memory."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from quantkit.errors import QuantkitError
from tests.fuzz.mutators import containers
from tests.loaders import LOADERS, Loader, placed

# What one small file may take; on a busy machine, too.
SECONDS = 5
MEGABYTES = 1024

Damage = Callable[[bytes], Iterable[bytes]]


@cache
def _sound(loader: Loader) -> bytes:
    return loader.sound()


def _places(content: bytes, most: int) -> range:
    return range(0, len(content), max(1, len(content) // most))


def cut_off(content: bytes) -> Iterator[bytes]:
    for place in _places(content, 60):
        yield content[:place]


def a_byte_changed(content: bytes) -> Iterator[bytes]:
    for place in _places(content, 150):
        yield content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]
        yield content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]


def a_byte_removed(content: bytes) -> Iterator[bytes]:
    for place in _places(content, 60):
        yield content[:place] + content[place + 1 :]


def a_byte_added(content: bytes) -> Iterator[bytes]:
    for place in _places(content, 60):
        yield content[:place] + b"\x00" + content[place:]


def a_number_enlarged(content: bytes) -> Iterator[bytes]:
    """Every place may hold a length."""
    for place in _places(content, 100):
        for number in (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x00\x00\x01\x00\x00", b"\xff" * 8):
            yield content[:place] + number + content[place + len(number) :]


def digits_added(content: bytes) -> Iterator[bytes]:
    digits = [place for place in range(len(content)) if content[place : place + 1].isdigit()]
    for place in digits[:: max(1, len(digits) // 30)]:
        for more in (b"9" * 9, b"9" * 25, b"9" * 5000, b"e999", b"-"):
            yield content[:place] + more + content[place:]


def halves_exchanged(content: bytes) -> Iterator[bytes]:
    middle = len(content) // 2
    yield content[middle:] + content[:middle]
    yield content + content
    yield content[::-1]


def something_else(content: bytes) -> Iterator[bytes]:
    yield from (b"", b"\x00", b"\xff\xfe", b"\n", b"\x00" * 5000, bytes(range(256)) * 40, b"a text\n" * 1000)
    yield b"\x80" * len(content)


def a_file_of_another_kind(content: bytes) -> Iterator[bytes]:
    for other in LOADERS:
        # Archives of arrays are of one kind, whatever these are called.
        sound = _sound(other)
        both = content.startswith(b"PK") and sound.startswith(b"PK")
        if sound != content and not both:
            yield sound


def nested(content: bytes) -> Iterator[bytes]:
    for opening in (b"[", b'{"a":', b"(", b"a = [", b"a = {b=", b"[[a.", b'{"nodes":[', b'{"what":'):
        yield opening * 100_000
    for place in _places(content, 20):
        yield content[:place] + b"[" * 20_000 + content[place:]
        yield content[:place] + b'{"a":' * 20_000 + content[place:]


def not_text(content: bytes) -> Iterator[bytes]:
    for place in _places(content, 30):
        for wrong in (b"\x00", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\\u0000"):
            yield content[:place] + wrong + content[place:]


def of_another_type(content: bytes) -> Iterator[bytes]:
    """JSON with other values in some places."""
    try:
        document = json.loads(content)
    except ValueError:
        return
    places = [
        (holder, key)
        for holder in containers(document)
        for key in (holder if isinstance(holder, dict) else range(len(holder)))
    ]
    for holder, key in places[:: max(1, len(places) // 15)]:
        before = holder[key]
        for other in (None, [], {}, "x", "\ud800", "\0", -1, 1 << 70, 1.5, float("nan"), float("inf"), True, [[[]]]):
            holder[key] = other
            yield json.dumps(document).encode()
        holder[key] = before


def in_another_encoding(content: bytes) -> Iterator[bytes]:
    yield content.decode("latin-1").encode("utf-16")
    yield b"\xef\xbb\xbf" + content
    yield b"\xff" + content


def large_values(content: bytes) -> Iterator[bytes]:
    yield from (b"9" * 900_000, b"a = " + b"9" * 900_000, b"1e999", b"a = inf", b"null", b"[]", b"{}", b"0", b'""')
    yield from (b"a." * 400_000 + b"a = 1", b"[" + b"a." * 400_000 + b"a]")


KINDS: tuple[Damage, ...] = (
    cut_off, a_byte_changed, a_byte_removed, a_byte_added, a_number_enlarged, digits_added, halves_exchanged,
    something_else, a_file_of_another_kind, nested, not_text, of_another_type, in_another_encoding, large_values,
)  # fmt: skip


@contextmanager
def bounded() -> Iterator[None]:
    """Limits for one load: an alarm, and address space beyond what the process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEGABYTES * 2**20, before[1]))
    handler = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


class TooLong(BaseException):
    """No ``Exception``, which a loader could take for damage."""


def _too_long(number: int, frame: object) -> None:
    raise TooLong(f"not done after {SECONDS} s")


def outcome(loader: Loader, path: Path) -> object:
    """The result of loading a file; None where it is refused as it should be."""
    try:
        with bounded():
            return loader.load(path)
    except QuantkitError as error:
        assert str(error)
        return None


@pytest.mark.parametrize("loader", LOADERS, ids=lambda loader: loader.name)
def test_the_sound_file_is_read(loader: Loader, tmp_path: Path) -> None:
    path = placed(loader, tmp_path, _sound(loader))
    found = outcome(loader, path)
    assert found == loader.load(path) is not None
    # Some loaders take what is damaged for nothing at all.
    path.write_bytes(b"")
    assert outcome(loader, path) != found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("damage", KINDS, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("loader", LOADERS, ids=lambda loader: loader.name)
def test_damage(loader: Loader, damage: Damage, tmp_path: Path) -> None:
    sound = _sound(loader)
    path = placed(loader, tmp_path, sound)
    expected = loader.load(path)
    for content in damage(sound):
        # File systems flush a file that is emptied and written again, but not a new one.
        path.unlink()
        path.write_bytes(content)
        try:
            found = outcome(loader, path)
        except (Exception, TooLong) as error:
            raise AssertionError(f"{type(error).__name__}: {error}; from {content[:2000]!r}") from error
        if loader.checked and content != sound + sound:
            assert found is None or found == expected, content


def _missing(path: Path) -> None:
    path.unlink()


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _socket(path: Path) -> None:
    path.unlink()
    # Socket addresses are short, temporary folders' names are not.
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


def _endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _link_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to("nothing")


def _memory(path: Path) -> None:
    path.unlink()
    path.symlink_to("/proc/self/mem")


def _holes(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


@pytest.mark.parametrize(
    "put", [_holes, _missing, _folder, _pipe, _socket, _endless, _link_to_itself, _link_to_nothing, _memory]
)
@pytest.mark.parametrize("loader", LOADERS, ids=lambda loader: loader.name)
def test_no_ordinary_file(loader: Loader, put: Callable[[Path], None], tmp_path: Path) -> None:
    path = placed(loader, tmp_path, _sound(loader))
    put(path)
    outcome(loader, path)
