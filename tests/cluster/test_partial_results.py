"""Partial results on disk: found again where nothing has changed, and only there."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from quantkit.cluster.job import Job
from quantkit.cluster.partial_results import PartialResults
from quantkit.data.batch_stream import BatchStream
from quantkit.data.preprocess import Preprocess
from quantkit.data.sources import load_data
from quantkit.files.cache import KINDS
from tests.cluster.slow_counting import Counting

COMMON = {"numpy": "1.26.4", "threads": 1}
WHAT = b"what was computed"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes, of which one lies elsewhere, as does a file of the other."""
    folder, store = tmp_path / "photos", tmp_path / "store"
    for place in (folder / "ape", store / "bee"):
        place.mkdir(parents=True)
        for number in range(3):
            Image.fromarray(np.full((4, 4, 3), number, np.uint8)).save(place / f"{number}.png")
    (folder / "bee").symlink_to(store / "bee")
    (folder / "ape" / "0.png").rename(store / "0.png")
    (folder / "ape" / "0.png").symlink_to(store / "0.png")
    # Back to where the walk came from.
    (store / "bee" / "above").symlink_to(folder)
    return folder


def results(folder: Path, common: Any = COMMON, **form: Any) -> PartialResults:
    stream = replace(BatchStream(load_data(folder), Preprocess(), (3, 4, 4), 2), **form)
    return PartialResults(Job.of(Counting(), stream), stream, common)


def test_what_was_kept_is_found_again(photos: Path) -> None:
    results(photos).put((2, 4), WHAT)
    again = results(photos)
    assert (again.get((2, 4)), again.get((0, 2)), list(again.spans())) == (WHAT, None, [(2, 4)])
    again.clear()
    assert results(photos).get((2, 4)) is None and not KINDS["shards"].entries()


def rewritten(photos: Path, place: str) -> None:
    path = photos / place
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.unlink() if not path.is_symlink() else None
    path.write_bytes(content)
    # As cp -p and rsync -t do.
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        lambda photos: (photos / "ape" / "3.png").write_bytes(b"another"),
        lambda photos: rewritten(photos, "ape/1.png"),
        lambda photos: rewritten(photos, "ape/0.png"),
        lambda photos: rewritten(photos, "bee/1.png"),
        lambda photos: (photos / "labels.csv").write_text("file,label\nape/1.png,1\nape/2.png,1\n"),
    ],
    ids=["more", "other pixels", "behind a link", "in a linked folder", "labels"],
)
def test_other_files_have_other_results(photos: Path, change: Callable[[Path], Any]) -> None:
    results(photos).put((0, 2), WHAT)
    change(photos)
    assert results(photos).get((0, 2)) is None


@pytest.mark.parametrize(
    "other",
    [
        {"common": {**COMMON, "threads": 2}},
        {"preparation": Preprocess(scale=1.0)},
        {"batch_size": 1},
        {"limit": 4},
        {"classes": 9},
    ],
    ids=lambda other: next(iter(other)),
)
def test_other_work_has_other_results(photos: Path, other: dict[str, Any]) -> None:
    results(photos).put((0, 2), WHAT)
    assert results(photos, **other).get((0, 2)) is None


def test_damage_is_no_result(photos: Path, home: Path) -> None:
    kept = results(photos)
    kept.put((0, 2), WHAT)
    (path,) = home.glob("shards/*/*.npz")
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole[:10], whole + b"x", bytes([whole[0] ^ 1]) + whole[1:]):
        path.write_bytes(damaged)
        assert kept.get((0, 2)) is None
    path.write_bytes(whole)
    assert kept.get((0, 2)) == WHAT


@pytest.mark.parametrize(
    "name",
    [
        "2-to-2.npz",
        "4-to-2.npz",
        "0-to-3.npz",
        "1-to-4.npz",
        "0-to-8.npz",
        "0-to-x.npz",
        f"0-to-{'9' * 13}.npz",
        "notes",
    ],
)
def test_shards_that_cut_batches_or_end_behind_the_samples_are_none(photos: Path, home: Path, name: str) -> None:
    kept = results(photos)
    kept.put((0, 2), WHAT)
    (path,) = home.glob("shards/*/*.npz")
    path.rename(path.with_name(name))
    assert not list(kept.spans())


def test_files_that_lie_elsewhere_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text('{"images": []}')
    stream = BatchStream(
        replace(load_data(np.zeros((4, 3), np.float32)), address=str(tmp_path / "list.json")), None, (3,), 2
    )
    kept = PartialResults(Job.of(Counting(), stream), stream, COMMON)
    kept.put((0, 2), WHAT)
    assert kept.get((0, 2)) is None and not KINDS["shards"].entries()


def test_a_disk_that_is_full_is_no_failure(photos: Path, home: Path) -> None:
    kept = results(photos)
    (home / "shards").mkdir()
    next(iter(home.glob("shards"))).rmdir()
    (home / "shards").write_text("no folder")
    kept.put((0, 2), WHAT)
    assert kept.get((0, 2)) is None


def test_what_nobody_goes_on_with_is_removed(photos: Path, home: Path) -> None:
    results(photos).put((0, 2), WHAT)
    (folder,) = home.glob("shards/*")
    for path in (folder, *folder.iterdir()):
        os.utime(path, (1, 1))
    abandoned = folder.with_name("0" * 64)
    folder.rename(abandoned)
    results(photos)
    assert not abandoned.exists()
