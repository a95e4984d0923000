"""Samples in an object store: each worker reads its own, and partial results are those of objects that still are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from quantkit.cluster.connect import connected
from quantkit.cluster.executor import ClusterExecutor
from quantkit.cluster.job import Job
from quantkit.cluster.partial_results import PartialResults
from quantkit.data.batch_stream import BatchStream
from quantkit.data.pack import Packing, pack
from quantkit.data.preprocess import Preprocess
from quantkit.data.samples import take
from quantkit.data.sources import load_data
from quantkit.errors import DataError
from quantkit.fusion.fused_model import FusedModel
from quantkit.progress import silent
from quantkit.quantization.calibrate import calibrate
from tests.cluster.slow_counting import Counting
from tests.object_stores import SHARDS, packed, put, serving_s3, use_s3

pytestmark = pytest.mark.requires("cluster", "object-store")

SAMPLES = 40


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))


@pytest.fixture(autouse=True)
def _s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with serving_s3() as address:
        use_s3(address, monkeypatch, tmp_path)
        yield


def test_a_table_is_that_of_one_process_and_the_local_folder(digits_fused: FusedModel, tmp_path: Path) -> None:
    digits = tmp_path / "digits"
    digits.mkdir()
    for number, sample in enumerate(take(load_data("digits:train"), SAMPLES)):
        Image.fromarray(np.asarray(sample.image)).save(digits / f"{number:03d}.png")
    pack(digits, tmp_path / "shards", Packing(shard_size=16))
    put(tmp_path / "shards", SHARDS)
    local = calibrate(digits_fused, str(tmp_path / "shards"), SAMPLES, "entropy")
    # These workers start in the environment that has the store's credentials.
    with connected("local:2") as client, ClusterExecutor(client, 8) as executor:
        assert calibrate(digits_fused, SHARDS, SAMPLES, "entropy", executor=executor) == local
        assert len(executor.work) >= SAMPLES / 8
        stream = BatchStream(load_data(SHARDS), Preprocess(), (3, 32, 32), 4)
        import s3fs

        s3fs.S3FileSystem().rm(f"{SHARDS}/shard-00001.rec")
        with pytest.raises(DataError, match=r"cannot read s3://.*/shard-00001\.rec: No such file or directory"):
            executor(Counting(0), stream, silent, "counting")


def test_partial_results_are_kept_until_an_object_changes(tmp_path: Path) -> None:
    shards = packed(tmp_path)
    put(shards, SHARDS)

    def results() -> PartialResults:
        stream = BatchStream(load_data(SHARDS), Preprocess(), (3, 20, 20), 2)
        return PartialResults(Job.of(Counting(), stream), stream, {})

    results().put((0, 2), b"what was computed")
    assert results().get((0, 2)) == b"what was computed"
    content = bytearray((shards / "shard-00002.rec").read_bytes())
    content[-1] ^= 1
    (shards / "shard-00002.rec").write_bytes(content)
    put(shards, SHARDS)
    assert results().get((0, 2)) is None


def test_nothing_is_kept_of_objects_without_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.data.object_store._VERSIONS", ())
    monkeypatch.setattr("quantkit.data.object_store._TIMES", ())
    put(packed(tmp_path), SHARDS)
    stream = BatchStream(load_data(SHARDS), Preprocess(), (3, 20, 20), 2)
    kept = PartialResults(Job.of(Counting(), stream), stream, {})
    kept.put((0, 2), b"what was computed")
    assert kept.get((0, 2)) is None
