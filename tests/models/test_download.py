"""Downloads: whole or not at all, resumed where that is safe, from servers that misbehave."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from quantkit.errors import QuantkitError, WeightsUnavailable
from quantkit.models.address import Address
from quantkit.models.download import Delivery, fetch
from quantkit.models.transfer import BrokenOff, Limits, Patience
from tests.models.servers import Script, Server, head, redirect, serving, whole

CONTENT = bytes(range(256)) * 2000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
HALF = len(CONTENT) // 2


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.params", content)
    return file.getvalue()


SCRIPTS: dict[str, Script] = {
    "/whole": whole(CONTENT),
    "/zipped.zip": whole(zipped(CONTENT)),
    "/bomb.zip": whole(zipped(bytes(1 << 21))),
    "/other": whole(CONTENT[::-1]),
    "/breaks": whole(CONTENT, until=HALF),
}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(dict(SCRIPTS)) as started:
        yield started


def held_to(sha256: str, delivery: Delivery) -> None:
    if delivery.content.sha256 != sha256:
        raise WeightsUnavailable("another file")


def get(server: Server, path: str, destination: Path, sha256: str = SHA256, verified: bool = True) -> Delivery:
    limits = Limits(answer=30.0, largest=1 << 20)
    accept = (lambda delivery: held_to(sha256, delivery)) if verified else (lambda delivery: None)
    url = Address(server.url + path)
    return fetch(url, destination, Patience(60.0), accept, verified=verified, limits=limits, quiet=True)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_whole_file(server: Server, tmp_path: Path) -> None:
    destination = tmp_path / "deep" / "file.params"
    delivery = get(server, "/whole", destination)
    assert destination.read_bytes() == CONTENT
    assert (delivery.content.size, delivery.content.sha256) == (len(CONTENT), SHA256)
    assert delivery.content.sha1 == hashlib.sha1(CONTENT).hexdigest()
    assert names(destination.parent) == ["file.params"]


def test_single_file_in_an_archive(server: Server, tmp_path: Path) -> None:
    destination = tmp_path / "file.params"
    get(server, "/zipped.zip", destination)
    assert destination.read_bytes() == CONTENT
    assert names(tmp_path) == ["file.params"]


def broken(server: Server, destination: Path, verified: bool = True) -> None:
    """Leave the first half of a download behind."""
    server.scripts["/whole"] = whole(CONTENT, until=HALF)
    with pytest.raises(BrokenOff, match="broke off after 256000 of 512000"):
        get(server, "/whole", destination, verified=verified)
    server.scripts["/whole"] = whole(CONTENT)
    assert names(destination.parent) == [".file.params.part", ".file.params.part.json"]


def begun_at(server: Server) -> str:
    return server.asked[-1].headers.get("range", "")


def test_broken_download_is_resumed(server: Server, tmp_path: Path) -> None:
    destination = tmp_path / "file.params"
    broken(server, destination)
    get(server, "/whole", destination)
    assert begun_at(server) == f"bytes={HALF}-"
    assert destination.read_bytes() == CONTENT
    assert names(tmp_path) == ["file.params"]


def test_what_came_whole_is_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    destination = tmp_path / "file.params"
    broken(server, destination)
    (tmp_path / ".file.params.part").write_bytes(CONTENT)
    asked = len(server.asked)
    get(server, "/whole", destination)
    assert len(server.asked) == asked
    assert destination.read_bytes() == CONTENT


def test_halves_are_not_joined_where_no_hash_can_tell(server: Server, tmp_path: Path) -> None:
    destination = tmp_path / "file.params"
    broken(server, destination, verified=False)
    get(server, "/whole", destination, verified=False)
    assert begun_at(server) == ""
    assert destination.read_bytes() == CONTENT


def test_halves_are_not_joined_by_a_weak_name_of_the_version(server: Server, tmp_path: Path) -> None:
    """It may be that of other bytes, too (RFC 9110, section 8.8.1)."""
    server.scripts["/whole"] = whole(CONTENT, etag='W/"one"', until=HALF)
    with pytest.raises(BrokenOff):
        get(server, "/whole", tmp_path / "file.params")
    server.scripts["/whole"] = whole(CONTENT, etag='W/"one"')
    get(server, "/whole", tmp_path / "file.params")
    assert begun_at(server) == ""


def test_a_login_is_not_recorded(server: Server, tmp_path: Path) -> None:
    server.url = server.url.replace("//", "//me:secret@")
    broken(server, tmp_path / "file.params")
    assert "secret" not in (tmp_path / ".file.params.part.json").read_text()
    delivery = get(server, "/whole", tmp_path / "file.params")
    assert begun_at(server) == f"bytes={HALF}-"
    assert "secret" not in repr(delivery)
    server.scripts["/torn.zip"] = whole(zipped(CONTENT)[:-1])
    with pytest.raises(WeightsUnavailable, match="archive") as raised:
        get(server, "/torn.zip", tmp_path / "file.params")
    assert "secret" not in str(raised.value)


def test_a_changed_file_is_not_glued_to_the_old_half(server: Server, tmp_path: Path) -> None:
    destination = tmp_path / "file.params"
    broken(server, destination)
    server.scripts["/whole"] = whole(CONTENT[::-1], etag='"two"')
    get(server, "/whole", destination, hashlib.sha256(CONTENT[::-1]).hexdigest())
    assert begun_at(server) == f"bytes={HALF}-"
    assert destination.read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize(
    "notes",
    [b"", b"{", b"[" * 100_000, b"[]", b"{}", b"null", b'{"url": 3}', b"\xff", bytes(1 << 20)],
)
def test_damaged_notes_of_a_broken_download_begin_it_anew(server: Server, tmp_path: Path, notes: bytes) -> None:
    destination = tmp_path / "file.params"
    broken(server, destination)
    (tmp_path / ".file.params.part.json").write_bytes(notes)
    get(server, "/whole", destination)
    assert begun_at(server) == ""
    assert names(tmp_path) == ["file.params"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("url", "http://127.0.0.1/whole"),
        *((name, wrong) for name in ("url", "version", "commit") for wrong in (1, None, ["x"], ...)),
        *(("total", wrong) for wrong in ("x", -1, 1.5, True, [1], float("nan"), ...)),
        *(("sha256", wrong) for wrong in ("x", 1, ["x"], ...)),
        ("x", 1),
    ],
)
def test_notes_of_another_download_are_not_used(server: Server, tmp_path: Path, key: str, value: object) -> None:
    destination = tmp_path / "file.params"
    broken(server, destination)
    notes = tmp_path / ".file.params.part.json"
    changed = {**json.loads(notes.read_text()), key: value}
    notes.write_text(json.dumps({name: each for name, each in changed.items() if each is not ...}))
    get(server, "/whole", destination)
    assert begun_at(server) == ""


def later(script: Script) -> Script:
    """Breaks off the first time; then as ``script`` says."""
    first = [whole(CONTENT, until=HALF)]
    return lambda request: (first.pop() if first else script)(request)


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        (lambda _: iter([head("416 Range Not Satisfiable", Content_Length=0)]), "answers 416"),
        (lambda _: iter([head("206 Partial Content", Content_Range="bytes 7-9/512000"), b"xxx"]), "another part"),
        (whole(bytes(HALF) + CONTENT[HALF + 1 :] + b"x"), "another file"),
        (redirect("file:///etc/passwd"), "only https"),
    ],
)
def test_a_half_that_cannot_be_gone_on_with_is_removed(
    server: Server, tmp_path: Path, script: Script, complaint: str
) -> None:
    server.scripts["/whole"] = later(script)
    with pytest.raises(BrokenOff):
        get(server, "/whole", tmp_path / "file.params")
    with pytest.raises(WeightsUnavailable, match=complaint):
        get(server, "/whole", tmp_path / "file.params")
    assert names(tmp_path) == []


def test_a_rest_that_is_too_short_is_told_and_gone_on_with(server: Server, tmp_path: Path) -> None:
    destination = tmp_path / "file.params"
    broken(server, destination)
    span = {"Content_Length": 10, "Content_Range": f"bytes {HALF}-{HALF + 9}/{len(CONTENT)}", "ETag": '"one"'}
    server.scripts["/whole"] = lambda _: iter([head("206 Partial Content", **span), CONTENT[HALF : HALF + 10]])
    with pytest.raises(BrokenOff, match="ended after 256010 of 512000"):
        get(server, "/whole", destination)
    server.scripts["/whole"] = whole(CONTENT)
    get(server, "/whole", destination)
    assert begun_at(server) == f"bytes={HALF + 10}-"
    assert destination.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("path", "complaint"),
    [("/other", "another file"), ("/none", "answers 404"), ("/bomb.zip", "bytes, more than|2097152 bytes")],
)
def test_what_is_refused_leaves_nothing_and_keeps_what_was_there(
    server: Server, tmp_path: Path, path: str, complaint: str
) -> None:
    destination = tmp_path / "file.params"
    with pytest.raises(WeightsUnavailable, match=complaint):
        get(server, path, destination)
    assert names(tmp_path) == []
    destination.write_bytes(b"earlier")
    with pytest.raises(WeightsUnavailable, match=complaint):
        get(server, path, destination)
    assert names(tmp_path) == ["file.params"]
    assert destination.read_bytes() == b"earlier"


def test_the_hub_says_which_hash_the_file_has(server: Server, tmp_path: Path) -> None:
    stated = {"X_Linked_Etag": f'"{SHA256}"', "Content_Length": 0}
    server.scripts["/hub"] = lambda _: iter([head("302 Found", Location="/whole", **stated)])
    get(server, "/hub", tmp_path / "file.params", verified=False)
    server.scripts["/hub"] = lambda _: iter([head("302 Found", Location="/other", **stated)])
    with pytest.raises(WeightsUnavailable, match="another file than its own hub states"):
        get(server, "/hub", tmp_path / "file.params", verified=False)
    assert (tmp_path / "file.params").read_bytes() == CONTENT


def test_destination_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(QuantkitError, match="QUANTKIT_HOME"):
        get(server, "/whole", tmp_path / "file" / "x.params")
