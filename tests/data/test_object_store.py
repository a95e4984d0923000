"""Shards in object stores: what a local folder gives, in few requests; and what is told where that cannot be."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.data import object_store
from quantkit.data import packed as packed_data
from quantkit.data.annotated_sources import load_boxes, load_masks, load_people
from quantkit.data.batch_stream import BatchStream
from quantkit.data.dataset import CalibrationDataset
from quantkit.data.preprocess import Preprocess
from quantkit.data.samples import Samples, take
from quantkit.data.sources import load_data
from quantkit.errors import DataError, ExtraMissing, SamplesUnavailable
from tests.object_stores import SHARDS, packed, photographs, put, serving_s3, use_s3
from tests.requirements import requires

requires("object-store")

MEMORY = "memory://kept/shards"
NUMBER = 20


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    """Folders stay open as long as nothing changes: the same images, put again within a second, have not."""
    packed_data._unchanged.cache_clear()


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    return packed(tmp_path, NUMBER)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving_s3() as address:
        yield address


@pytest.fixture
def s3(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    use_s3(server, monkeypatch, tmp_path)
    return SHARDS


@pytest.fixture
def memory() -> Iterator[Any]:
    """The store in memory, empty."""
    from fsspec.implementations.memory import MemoryFileSystem

    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    yield MemoryFileSystem()
    MemoryFileSystem.store.clear()


@pytest.fixture
def asked(memory: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """The ranges that are asked of the store in memory: the file's name, from where, up to where."""
    ranges = []
    plain = type(memory).cat_file

    def cat_file(self: Any, path: str, start: int, end: int) -> bytes:
        ranges.append((path.rpartition("/")[2], start, end))
        content: bytes = plain(self, path, start=start, end=end)
        return content

    monkeypatch.setattr(type(memory), "cat_file", cat_file)
    return ranges


def all_of(samples: Samples) -> list[tuple[str, object, bytes]]:
    return [(sample.name, sample.label, sample.image.tobytes()) for sample in samples]


@pytest.mark.parametrize("place", ["memory", "file", "s3"])
def test_samples_are_those_of_the_local_folder(place: str, shards: Path, request: pytest.FixtureRequest) -> None:
    address = f"file://{shards}" if place == "file" else MEMORY
    if place != "file":
        fixture = request.getfixturevalue(place)
        address = fixture if place == "s3" else MEMORY
        put(shards, address)
    local, stored = load_data(shards), load_data(address)
    assert (stored.name, stored.size, stored.independent) == (local.name, NUMBER, True)
    assert all_of(stored) == all_of(local)
    assert all_of(take(stored, 7)) == all_of(take(local, 7))
    one, other = (CalibrationDataset(each, Preprocess(resize=20, crop=16), (3, 16, 16)) for each in (local, stored))
    assert one.sha256 == other.sha256
    # Nobody else sees this process's memory.
    assert stored.address == (None if place == "memory" else address)
    assert load_data(f"{address}/").address == stored.address


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "shards.json").write_text("{}"),
        lambda folder: (folder / "shards.json").write_text("not JSON"),
        lambda folder: (folder / "shard-00001.idx").unlink(),
        lambda folder: (folder / "shard-00001.idx").write_text("0\n"),
        lambda folder: (folder / "shard-00001.idx").write_text(8 * "0\t0.5\n"),
        lambda folder: (folder / "shard-00001.idx").write_text(8 * "0\t9999999999\n"),
        lambda folder: (folder / "shard-00001.idx").write_text(8 * "0\t4\n"),
        lambda folder: (folder / "shard-00001.idx").write_text(70_000 * "0\t4\n"),
        lambda folder: (folder / "shard-00001.lst").unlink(),
        lambda folder: (folder / "shard-00001.lst").write_bytes(8 * b"0\t0\t\xff\n"),
        lambda folder: (folder / "shard-00001.rec").unlink(),
        lambda folder: (folder / "shard-00001.rec").write_bytes(b""),
        lambda folder: (folder / "shard-00001.rec").write_bytes((folder / "shard-00001.rec").read_bytes()[:-30]),
        lambda folder: (folder / "shard-00001.rec").write_bytes((folder / "shard-00001.rec").read_bytes()[:3]),
    ],
)
def test_damage_is_told_as_of_the_local_folder(change: Callable[[Path], Any], shards: Path, memory: Any) -> None:
    change(shards)
    put(shards, MEMORY)
    told = []
    for place in (str(shards), MEMORY):
        with pytest.raises(DataError) as caught:
            all_of(load_data(place))
        told.append(str(caught.value).replace(place, "HERE"))
    assert told[0] == told[1]


def test_empty_objects_are_damage_too(shards: Path, s3: str) -> None:
    (shards / "shard-00001.lst").write_bytes(b"")
    (shards / "shard-00002.rec").write_bytes(b"")
    put(shards, s3)
    with pytest.raises(DataError, match=r"shard-00001\.lst 0 names, where shards\.json has 8 images"):
        all_of(load_data(s3))
    with pytest.raises(DataError, match=r"cannot read s3://.*/shard-00002\.rec: unpack requires"):
        list(load_data(s3).read([NUMBER - 1]))


def test_a_pass_over_all_takes_few_requests_and_every_byte_once(
    tmp_path: Path, asked: list[tuple[str, int, int]]
) -> None:
    shards = packed(tmp_path, 64, 32)
    put(shards, MEMORY)
    samples = load_data(MEMORY)
    assert {name for name, _, _ in asked} == {"shards.json"}
    asked.clear()
    all_of(samples)
    records = [each for each in asked if each[0].endswith(".rec")]
    size = sum(path.stat().st_size for path in shards.glob("*.rec"))
    assert sum(end - start for _, start, end in records) == size
    assert len(records) <= 2 * 7
    assert len(asked) - len(records) == 2 * 2
    all_of(samples)
    assert not [each for each in asked[len(records) + 4 :] if not each[0].endswith(".rec")]


def test_a_few_of_many_are_asked_for_one_by_one(
    tmp_path: Path, asked: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quantkit.data.read_ahead._GAP", 0)
    shards = packed(tmp_path, 60, 60)
    put(shards, MEMORY)
    rows = (shards / "shard-00000.idx").read_text().splitlines()
    offsets = [*(int(row.split("\t")[1]) for row in rows), (shards / "shard-00000.rec").stat().st_size]
    some = [3, 17, 40, 59]
    assert [sample.name for sample in load_data(MEMORY).read(some)]
    assert asked[-4:] == [("shard-00000.rec", offsets[place], offsets[place + 1]) for place in some]


def test_many_threads_may_read(shards: Path, memory: Any) -> None:
    put(shards, MEMORY)
    samples = load_data(MEMORY)
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda each: each(), samples.deferred()))
    assert [sample.name for sample in read] == [sample.name for sample in load_data(shards)]
    form = Preprocess(resize=20, crop=16), (3, 16, 16), 4
    for one, other in zip(BatchStream(samples, *form), BatchStream(load_data(shards), *form), strict=True):
        np.testing.assert_array_equal(one.data, other.data)


def test_lists_are_fetched_once_until_something_changes(shards: Path, s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(shards, s3)
    fetched: list[str] = []
    plain = object_store._Objects.fetch

    def fetch(self: Any, file: str, start: int, end: int) -> bytes:
        fetched.append(file)
        return plain(self, file, start, end)

    monkeypatch.setattr(object_store._Objects, "fetch", fetch)
    before = all_of(load_data(s3))
    lists = [name for name in fetched if not name.endswith(".rec")]
    assert len(lists) == len(set(lists)) == 1 + 2 * 3
    assert all_of(load_data(s3)) == before
    assert [name for name in fetched if not name.endswith(".rec")] == lists
    path = shards / "shard-00002.lst"
    path.write_text(path.read_text().replace("class", "kinds"))
    put(shards, s3)
    assert all_of(load_data(s3)) == all_of(load_data(shards)) != before


@pytest.mark.parametrize(
    ("address", "kind", "told"),
    [
        ("s4://bucket/shards", DataError, "unknown protocol 's4'"),
        ("zip://shards::s3://bucket/x.zip", DataError, "is a chain of addresses"),
        ("s3://", DataError, "s3:// names no folder"),
        ("memory:///", DataError, "names no folder"),
        ("gs://bucket/shards", ExtraMissing, "gs://bucket/shards needs a further package .*gcsfs"),
        ("memory://elsewhere", DataError, r"no folder of shards at memory://elsewhere: .* pack FOLDER --out shards"),
    ],
)
def test_addresses_that_cannot_be_opened(address: str, kind: type[Exception], told: str, memory: Any) -> None:
    with pytest.raises(kind, match=told):
        load_data(address)


@pytest.mark.parametrize(
    "address",
    [
        "sftp://user:hidden@host/shards",
        "s3://KEY:with/hidden@bucket/shards",
        "ftp://me@corp.com:hidden@host/shards",
        "https://hidden@host/shards",
        "HTTP://hidden@host",
    ],
)
def test_passwords_are_not_repeated(address: str) -> None:
    with pytest.raises(DataError, match="an address holds a password") as caught:
        load_data(address)
    assert "hidden" not in str(caught.value)


def test_names_are_no_passwords() -> None:
    assert not any(map(object_store._PASSWORD.match, ("abfs://container@account/shards", "sftp://user@host/shards")))


def test_stores_that_tell_no_sizes(shards: Path, memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    put(shards, MEMORY)
    listed = object_store._Objects.listed

    def without_sizes(self: Any, marker: str) -> dict[str, Any]:
        return {name: {**entry, "size": None} for name, entry in listed(self, marker).items()}

    monkeypatch.setattr(object_store._Objects, "listed", without_sizes)
    with pytest.raises(SamplesUnavailable, match=r"does not tell how large memory://.*shards\.json is"):
        load_data(MEMORY)


def test_the_extra_of_s3_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.extras.find_spec", lambda module: None)
    with pytest.raises(ExtraMissing, match=r"need the package s3fs; install it: pip install 'quantkit\[s3\]'"):
        load_data(SHARDS)


def test_absent_buckets_and_folders_of_images(s3: str, tmp_path: Path) -> None:
    put(photographs(tmp_path / "images", 3) / "class0", "s3://photos/plain")
    for address in ("s3://nowhere/shards", "s3://photos/nothing", "s3://photos/plain", "s3://photos"):
        with pytest.raises(DataError, match=f"no folder of shards at {address}: .* have to be packed"):
            load_data(address)


def test_a_folder_that_vanishes_while_it_is_opened(shards: Path, memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    put(shards, MEMORY)

    def ls(self: Any, path: str, detail: bool) -> None:
        raise FileNotFoundError(path)

    monkeypatch.setattr(type(memory), "ls", ls)
    with pytest.raises(DataError, match=f"no folder of shards at {MEMORY}"):
        load_data(MEMORY)


def named(name: str) -> type[Exception]:
    return type(name, (Exception,), {})


@pytest.mark.parametrize(
    ("failure", "kind", "told"),
    [
        (PermissionError("Access Denied"), DataError, r"may not be read \(Access Denied\); set credentials"),
        (named("NoCredentialsError")("Unable to locate"), DataError, r"\(Unable to locate\); set credentials"),
        (TimeoutError(), SamplesUnavailable, "did not answer in time"),
        (named("EndpointConnectionError")("Could not connect\nto it"), SamplesUnavailable, "read: Could not connect;"),
        (ConnectionRefusedError(111, "Connection refused"), SamplesUnavailable, "Connection refused; see whether"),
        (named("Odd")(), SamplesUnavailable, "read: Odd;"),
        (FileNotFoundError("the key"), DataError, "cannot read memory://kept/shards/shard-00001.rec: No such file"),
        (ImportError("No module named 'x'", name="x"), ExtraMissing, "needs a further package .*'x'"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_what_stores_raise(
    failure: Exception, kind: type[Exception], told: str, shards: Path, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(shards, MEMORY)
    samples = load_data(MEMORY)
    plain = type(memory).cat_file

    def cat_file(self: Any, path: str, **places: int) -> bytes:
        if path.endswith("shard-00001.rec"):
            raise failure
        content: bytes = plain(self, path, **places)
        return content

    monkeypatch.setattr(type(memory), "cat_file", cat_file)
    with pytest.raises(kind, match=told):
        all_of(samples)


def test_an_object_that_vanishes_or_changes_meanwhile(shards: Path, s3: str) -> None:
    import s3fs

    put(shards, s3)
    store, path = s3fs.S3FileSystem(), f"{s3}/shard-00001.rec"
    for change, told in (
        (lambda: store.pipe_file(path, b"short"), "has changed since the folder was opened"),
        (lambda: store.rm(path), r"cannot read s3://.*/shard-00001\.rec: No such file or directory"),
    ):
        put(shards, s3)
        stream = iter(load_data(s3))
        next(stream)
        change()
        with pytest.raises(DataError, match=told):
            list(stream)


@pytest.mark.usefixtures("s3")
def test_a_server_that_goes_down(shards: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # As often as a request is tried.
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with serving_s3() as address:
        use_s3(address, monkeypatch, tmp_path)
        put(shards, SHARDS)
        stream = iter(load_data(SHARDS))
        next(stream)
    with pytest.raises(SamplesUnavailable, match=r"shard-0000\d\.\w+ cannot be read: Could not connect"):
        list(stream)
    with pytest.raises(SamplesUnavailable, match=r"shards\.json cannot be read: Could not connect"):
        load_data(SHARDS)


def test_a_store_that_never_answers(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    import s3fs

    async def waiting(*arguments: Any, **options: Any) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(s3fs.S3FileSystem, "_info", waiting)
    monkeypatch.setattr(object_store, "_PATIENCE", 0.2)
    with pytest.raises(SamplesUnavailable, match="did not answer in time"):
        load_data(s3)


def test_planted_folders_are_not_read_instead(
    shards: Path, memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(shards, tmp_path / "memory:" / "kept" / "shards")
    (tmp_path / "memory:" / "a.json").write_text("{}")
    for folder in ("JPEGImages", "Annotations"):
        (tmp_path / "memory:" / "voc" / folder).mkdir(parents=True)
    for address in (MEMORY, "memory://a.json", "memory://voc", "memory://voc:test"):
        for load in (load_data, load_boxes, load_masks, lambda spec: load_people(spec, (8, 8), 2)):
            with pytest.raises(DataError, match="no folder of shards at memory://"):
                load(address)


@pytest.mark.parametrize(
    ("entry", "stamp"),
    [
        ({"size": 3, "ETag": "x", "LastModified": "then"}, ("a", 3, "x then")),
        ({"size": 3, "etag": "x", "generation": "7"}, ("a", 3, "x 7")),
        ({"size": 3, "mtime": 5.5}, ("a", 3, "5.5")),
        ({"size": 3, "created": 5.5}, None),
        ({"size": 3, "ETag": ""}, None),
    ],
)
def test_stamps_are_versions_or_unknown(entry: dict[str, Any], stamp: Any) -> None:
    assert object_store._stamps({"a": entry}) == (None if stamp is None else (stamp,))
