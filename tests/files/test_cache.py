from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from quantkit.benchmark.workloads.store import Made, stored_array, stored_checkpoint, stored_files, stored_outputs
from quantkit.errors import QuantkitError, UserError
from quantkit.files import cache, files
from quantkit.files.cache import KINDS, bound_workloads, remove_unused, touch, unused_elsewhere, use, workloads
from quantkit.files.files import sha256_of
from quantkit.files.temporary import is_temporary
from quantkit.mixed_precision.journal import Journal, journal_path
from quantkit.models.card import WeightSource
from quantkit.models.trust import record_file
from quantkit.models.weight_store import cached
from tests.networks import residual_v1
from tests.processes import another_uses


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def array(home: Path, name: str, size: int, used: int) -> Path:
    path = home / "workloads" / "inputs" / f"{name}.npy"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (used, used))
    return path


def names(home: Path) -> list[str]:
    return sorted(path.stem for path in (home / "workloads" / "inputs").glob("*.npy"))


def test_the_least_recently_used_goes_first(home: Path) -> None:
    for number, name in enumerate("cab"):
        array(home, name, 100, 1000 + number)
    touch(home / "workloads" / "inputs" / "c.npy")
    removed = remove_unused(workloads(), 150)
    assert [entry.name for entry in removed] == ["workloads/inputs/a.npy", "workloads/inputs/b.npy"]
    assert names(home) == ["c"]
    assert remove_unused(workloads(), 150) == ()


def test_what_a_process_uses_stays_until_it_ends(home: Path) -> None:
    held, free = array(home, "held", 100, 1000), array(home, "free", 100, 2000)
    with another_uses(held):
        remove_unused(workloads())
        assert (held.exists(), free.exists()) == (True, False)
    remove_unused(workloads())
    assert not held.exists()
    assert [path.name for path in (home / ".in-use").iterdir()] == [".lock"]


def test_what_this_process_uses_stays(home: Path) -> None:
    mine = array(home, "mine", 100, 1000)
    use(mine)
    remove_unused(workloads())
    assert mine.exists()


def test_an_entry_that_no_other_process_uses_can_be_had_alone(home: Path) -> None:
    path = array(home, "mine", 100, 1000)
    use(path)
    with unused_elsewhere(path):
        pass
    with another_uses(path), pytest.raises(QuantkitError, match=r"another process uses .*mine"), unused_elsewhere(path):
        raise AssertionError
    with unused_elsewhere(path):
        pass


def test_the_store_stays_below_its_bound(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTKIT_WORKLOADS_GB", "0.000001")  # 1000 bytes
    old = [array(home, name, 400, 1000 + number) for number, name in enumerate("ab")]
    new = stored_array(np.zeros(100, np.float32))
    assert [path.exists() for path in (*old, new)] == [False, True, True]
    assert sum(entry.size for entry in workloads()) <= 1000
    # Alone it is too large, but in use.
    large = stored_array(np.zeros(1000, np.float32))
    assert large.exists()
    assert not old[1].exists()


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "inf", "ten"])
def test_a_bound_that_is_none_is_refused(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTKIT_WORKLOADS_GB", limit)
    with pytest.raises(UserError, match="QUANTKIT_WORKLOADS_GB"):
        bound_workloads()


def test_all_that_the_store_writes_is_listed_and_removed_whole(home: Path) -> None:
    def network(folder: Path) -> dict[str, Path]:
        (folder / "network.onnx").write_bytes(bytes(10))
        return {"onnx": folder / "network.onnx"}

    stored_checkpoint("net", "k" * 64, lambda: Made(residual_v1(), {}), lambda message: None)
    stored_files("net", "k" * 64, network, lambda message: None)
    stored_array(np.zeros(3))
    stored_outputs("a" * 64, lambda: [np.zeros(3)])
    assert len(workloads()) == 4
    files = [path for path in (home / "workloads").rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert sum(entry.size for entry in workloads()) == sum(path.stat().st_size for path in files)
    assert remove_unused(workloads()) == ()
    _forget()
    assert len(remove_unused(workloads())) == 4
    assert [path for path in (home / "workloads").rglob("*") if path.is_file() and path.suffix != ".lock"] == []


def _forget() -> None:
    """As if the process that used all had ended."""
    assert cache._own is not None
    os.close(cache._own[2])
    cache._own = None


def test_others_need_not_wait_while_entries_are_deleted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array(home, "old", 100, 1000)
    deleted: list[str] = []

    def held() -> None:
        raise AssertionError("the lock is held")

    def remove(path: Path) -> None:
        with files.locked(home / ".in-use" / ".lock", held):
            deleted.append(path.name)

    monkeypatch.setattr(cache, "remove", remove)
    (entry,) = remove_unused(workloads())
    assert entry.name == "workloads/inputs/old.npy"
    assert (names(home), len(deleted)) == ([], 1)
    assert is_temporary(deleted[0])


def test_a_checkpoint_goes_with_its_record_first() -> None:
    made = stored_checkpoint("net", "k" * 64, lambda: Made(residual_v1(), {}), lambda message: None)
    (entry,) = workloads()
    assert entry.paths[0].name.endswith("k.json")
    _forget()
    params = made.checkpoint.files["params"]
    params.unlink()
    params.mkdir()
    (params / "x").write_text("")
    remove_unused(workloads())
    assert workloads() == ()


def test_links_are_not_followed(home: Path, tmp_path: Path) -> None:
    others = tmp_path / "others"
    (others / "inputs").mkdir(parents=True)
    (others / "inputs" / "a.npy").write_bytes(b"mine")
    (home / "workloads").mkdir()
    (home / "workloads" / "inputs").symlink_to(others / "inputs")
    (home / "workloads" / "references").mkdir()
    (home / "workloads" / "references" / "b.npz").symlink_to(others / "inputs" / "a.npy")
    network = home / "workloads" / "networks" / "net"
    network.mkdir(parents=True)
    (network / "link").symlink_to(others)
    assert [entry.name for entry in workloads()] == ["workloads/networks/net"]
    remove_unused(workloads())
    assert not network.exists()
    assert (others / "inputs" / "a.npy").read_bytes() == b"mine"
    (home / "builds").symlink_to(others)
    assert KINDS["builds"].entries() == ()


def test_only_what_quantkit_keeps_is_an_entry(home: Path) -> None:
    """The home may be a folder with other things in it."""
    source = WeightSource("gluoncv", "resnet18_v1-a0666292")
    cached(source).parent.mkdir(parents=True)
    cached(source).write_bytes(b"weights")
    record_file(cached(source)).write_text("{}")
    journal = Journal(journal_path({"a": 1}))
    journal.recall(["x"], lambda: {"y": 1})
    environment, registered = home / "builds" / "native", home / "builds" / "mine"
    for folder in (environment, registered):
        folder.mkdir(parents=True)
        (folder / "build.json").write_text("{}")
    (environment / "pyvenv.cfg").write_text("")
    (home / "engines").mkdir()
    (home / "engines" / f"{sha256_of(environment / 'pyvenv.cfg')}.json").write_text("{}")
    (home / "shards" / sha256_of(environment / "pyvenv.cfg")).mkdir(parents=True)
    for place in (
        "thesis.txt",
        "shards/thesis.txt",
        "weights/thesis.txt",
        "searches/thesis.txt",
        "engines/a.json",
        "builds/x/thesis.txt",
    ):
        (home / place).parent.mkdir(exist_ok=True)
        (home / place).write_text("mine")
    found = {name: [Path(entry.name).name for entry in kind.entries()] for name, kind in KINDS.items()}
    assert {name: len(entries) for name, entries in found.items()} == {
        "workloads": 0, "builds": 1, "weights": 1, "engines": 1, "shards": 1, "searches": 1,
    }  # fmt: skip
    assert (found["builds"], found["weights"]) == (["native"], ["resnet18_v1-a0666292.params"])
    for name in ("builds", "weights"):
        remove_unused(KINDS[name].entries())
    assert not environment.exists()
    assert registered.exists()
    assert record_file(cached(source)).exists()
    # The journal is open in this process.
    assert remove_unused(KINDS["searches"].entries()) == ()


def test_a_home_that_cannot_be_written_is_named(home: Path) -> None:
    (home / ".in-use").write_text("")
    with pytest.raises(QuantkitError, match="set QUANTKIT_HOME"):
        use(home / "weights" / "x")


def test_lists_follow_the_home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(array(home, "a", 1, 1))
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "another"))
    use(tmp_path / "another" / "workloads" / "inputs" / "b.npy")
    assert len(list((tmp_path / "another" / ".in-use").glob("[!.]*"))) == 1
    monkeypatch.setenv("QUANTKIT_HOME", str(home))
    assert len(remove_unused(workloads())) == 1
