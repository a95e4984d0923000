from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.mxnet.checkpoint import read_checkpoint
from quantkit.benchmark.workloads.network import Checkpoint
from quantkit.benchmark.workloads.store import (
    Made,
    Stored,
    stored_array,
    stored_checkpoint,
    stored_files,
    stored_outputs,
)
from quantkit.errors import QuantkitError
from quantkit.files.files import sha256_of
from quantkit.formats.mxnet import nnvm
from tests.networks import residual_v1


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path))
    return tmp_path


class Maker:
    """Makes a network and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> Made:
        self.times += 1
        return Made(residual_v1(), {"agreement": 0.5})


def stored(maker: Maker, key: str = "k" * 64) -> Stored:
    return stored_checkpoint("a net/1", key, maker, lambda message: None)


def test_a_checkpoint_is_made_once_and_read_back() -> None:
    maker = Maker()
    first = stored(maker)
    assert stored(maker) == first
    assert maker.times == 1
    assert first.accuracy == {"agreement": 0.5}
    assert nnvm.sha256_of(read_checkpoint(**first.checkpoint.files)) == nnvm.sha256_of(residual_v1())
    assert stored(maker, "another") != first


@pytest.mark.parametrize("file", ["symbol", "params"])
def test_an_altered_checkpoint_is_made_anew(file: str) -> None:
    maker = Maker()
    first = stored(maker)
    path = first.checkpoint.files[file]
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert stored(maker) == first
    assert maker.times == 2
    assert path.read_bytes() == content


def test_a_checkpoint_whose_writing_was_cut_off_is_made_anew(home: Path) -> None:
    maker = Maker()
    checkpoint = stored(maker).checkpoint
    (record,) = set((home / "workloads" / "checkpoints").glob("*.json")) - {checkpoint.files["symbol"]}
    record.unlink()
    stored(maker)
    assert maker.times == 2


class FilesMaker:
    """Makes a network of two files, and leaves a third."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, folder: Path) -> dict[str, Path]:
        self.times += 1
        paths = {role: folder / f"network.{role}" for role in ("xml", "bin")}
        for role, path in paths.items():
            path.write_text(role)
        return paths


def test_files_for_another_engine_are_made_once_and_anew_where_altered() -> None:
    maker = FilesMaker()

    def stored() -> Checkpoint:
        return stored_files("a net/1", "k" * 64, maker, lambda message: None)

    first = stored()
    assert {role: path.read_text() for role, path in first.files.items()} == {"xml": "xml", "bin": "bin"}
    assert first.sha256 == {role: sha256_of(path) for role, path in first.files.items()}
    assert (stored(), maker.times) == (first, 1)
    first.files["bin"].write_text("altered")
    assert (stored(), maker.times) == (first, 2)
    assert first.files["bin"].read_text() == "bin"


def _stored_files(maker: FilesMaker) -> Checkpoint:
    return stored_files("a net/1", "k" * 64, maker, lambda message: None)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link_out(path: Path) -> None:
    """To a file of the same content."""
    elsewhere = path.parents[3] / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("change", [_pipe, _folder, _link_out, _endless, Path.unlink])
@pytest.mark.parametrize("name", ["files.json", "network.bin"])
def test_what_is_no_file_of_the_entry_is_made_anew(change: Callable[[Path], None], name: str) -> None:
    maker = FilesMaker()
    first = _stored_files(maker)
    change(first.files["bin"].with_name(name))
    again = _stored_files(maker)
    assert again == first
    # The record may lie elsewhere: the hashes in it are those of the files.
    assert maker.times == (1 if (change, name) == (_link_out, "files.json") else 2)


@pytest.mark.parametrize(
    "record",
    [
        None, [], {}, 7, {"xml": None}, {"xml": "ab"}, {"xml": [7, "DIGEST"]}, {"xml": ["network.xml", 7]},
        {"xml": ["../elsewhere", "DIGEST"]}, {"xml": ["PLACE/elsewhere", "DIGEST"]}, {"xml": ["a\0b", "DIGEST"]},
        {"xml": ["\ud800", "DIGEST"]}, {"xml": ["", "DIGEST"]},
    ],
)  # fmt: skip
def test_a_record_that_says_something_else_is_not_believed(record: object) -> None:
    maker = FilesMaker()
    first = _stored_files(maker)
    folder = first.files["xml"].parent
    (folder.parent / "elsewhere").write_text("xml")
    text = json.dumps(record).replace("DIGEST", first.sha256["xml"]).replace("PLACE", str(folder.parent))
    (folder / "files.json").write_text(text)
    assert (_stored_files(maker), maker.times) == (first, 2)


def test_a_link_in_an_entrys_place_is_replaced_and_not_what_it_leads_to(tmp_path: Path) -> None:
    maker = FilesMaker()
    first = _stored_files(maker)
    folder = first.files["xml"].parent
    shutil.rmtree(folder)
    others = tmp_path / "others"
    others.mkdir()
    (others / "thesis.txt").write_text("mine")
    folder.symlink_to(others)
    assert _stored_files(maker) == first
    assert [path.name for path in others.iterdir()] == ["thesis.txt"]
    assert not folder.is_symlink()


@pytest.mark.parametrize("role", ["symbol", "params", "record"])
def test_a_link_in_a_checkpoints_place_is_replaced_and_not_what_it_leads_to(role: str, tmp_path: Path) -> None:
    maker = Maker()
    first = stored(maker)
    symbol = first.checkpoint.files["symbol"]
    record = symbol.with_name(symbol.name.replace("-symbol", ""))
    path = {**first.checkpoint.files, "record": record}[role]
    (tmp_path / "thesis.txt").write_text("mine")
    path.unlink()
    path.symlink_to(tmp_path / "thesis.txt")
    assert (stored(maker), maker.times) == (first, 2)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize("accuracy", [None, 7, ["x"], {"agreement": "x"}, {"agreement": None}])
def test_figures_that_are_none_are_measured_anew(accuracy: object) -> None:
    maker = Maker()
    first = stored(maker)
    symbol = first.checkpoint.files["symbol"]
    record = symbol.with_name(symbol.name.replace("-symbol", ""))
    record.write_text(json.dumps({**json.loads(record.read_text()), "accuracy": accuracy}))
    assert (stored(maker), maker.times) == (first, 2)


def test_files_that_could_not_be_made_leave_nothing(home: Path) -> None:
    def make(folder: Path) -> dict[str, Path]:
        (folder / "network.xml").write_text("half")
        raise QuantkitError("no")

    with pytest.raises(QuantkitError):
        stored_files("net", "k" * 64, make, lambda message: None)
    assert [path.name for path in (home / "workloads" / "networks").iterdir() if path.is_dir()] == []


def test_of_two_that_want_the_same_one_waits() -> None:
    begun, told = threading.Event(), threading.Event()
    maker = Maker()

    def slow() -> Made:
        begun.set()
        assert told.wait(10)
        return maker()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(stored_checkpoint, "net", "key", slow, lambda message: None)
        assert begun.wait(10)
        second = pool.submit(stored_checkpoint, "net", "key", maker, lambda message: told.set())
        assert first.result(20) == second.result(20)
    assert maker.times == 1


def test_arrays_are_stored_by_content() -> None:
    ones = np.ones((2, 3), np.float32)
    path = stored_array(ones)
    np.testing.assert_array_equal(np.load(path), ones)
    assert stored_array(ones.copy()) == path
    assert len({path, stored_array(ones.reshape(3, 2)), stored_array(ones.view(np.int32)), stored_array(ones * 2)}) == 4


def test_outputs_are_made_once_by_key() -> None:
    calls = []

    def outputs() -> list[np.ndarray]:
        calls.append(1)
        return [np.zeros(2), np.ones(3)]

    path = stored_outputs("a", outputs)
    assert stored_outputs("a", outputs) == path
    with np.load(path) as archive:
        assert [archive[name].tolist() for name in archive.files] == [[0, 0], [1, 1, 1]]
    assert len(calls) == 1
    assert stored_outputs("b", outputs) != path


def test_a_lock_that_cannot_be_had_is_named(home: Path) -> None:
    (home / "workloads" / "checkpoints" / ".a_net_1-kkkkkkkkkkkkkkkk.lock").mkdir(parents=True)
    with pytest.raises(QuantkitError, match="set QUANTKIT_HOME"):
        stored(Maker())


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "file"))
    with pytest.raises(QuantkitError, match="set QUANTKIT_HOME"):
        stored_array(np.zeros(1))
