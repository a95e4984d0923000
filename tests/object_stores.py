"""An object store on the loopback, in this process, and shards to put there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from quantkit.data.pack import Packing, pack
from tests.requirements import requires

BUCKET = "photos"
SHARDS = f"s3://{BUCKET}/packed/shards"


@contextmanager
def serving_s3() -> Iterator[str]:
    """An S3 server with an empty bucket; its address."""
    requires("object-store")
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()


def use_s3(address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have this process and those that it starts reach a server, which has one empty bucket then."""
    import s3fs

    for name, value in {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    store = s3fs.S3FileSystem()
    if store.exists(BUCKET):
        store.rm(BUCKET, recursive=True)
    store.mkdir(BUCKET)


def put(folder: Path, address: str) -> None:
    """Copy the files of a folder to an address."""
    from fsspec.core import url_to_fs

    store, root = url_to_fs(address)
    for path in folder.iterdir():
        store.pipe_file(f"{root}/{path.name}", path.read_bytes())


def photographs(folder: Path, number: int, size: int = 20) -> Path:
    """So many images of noise in three classes, as PNG files, in a new folder."""
    random = np.random.default_rng(0)
    for each in range(number):
        place = folder / f"class{each % 3}"
        place.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, (size + each % 5, size, 3), np.uint8)
        Image.fromarray(pixels).save(place / f"{each:03d}.png")
    return folder


def packed(tmp_path: Path, number: int = 20, shard_size: int = 8) -> Path:
    """A folder of shards."""
    pack(photographs(tmp_path / "images", number), tmp_path / "shards", Packing(shard_size=shard_size))
    return tmp_path / "shards"
