"""Every reader of a text format, and of .params, against every kind of damage: our errors, in bounded time."""

from __future__ import annotations

import io
import json
import os
import random
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from quantkit import files
from quantkit.benchmark import build_folder
from quantkit.benchmark.build import Build
from quantkit.benchmark.result_files import CELLS, read_cells, read_run, write_cell, write_run
from quantkit.benchmark.suite import read_suite
from quantkit.bundle.manifest import MANIFEST, read_manifest
from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable, read_table, write_table
from quantkit.deployment import fastest
from quantkit.errors import QuantkitError
from quantkit.graph import nnvm
from quantkit.graph.params import read_params, write_params
from quantkit.models.card import read_card
from quantkit.models.labels import label_names
from quantkit.models.symbol import inference_graph, noted_shapes, read_symbol
from quantkit.search.journal import Journal
from tests.benchmark.cells import cell, closed_loop
from tests.benchmark.fakes import run_of, suite
from tests.networks import residual_v2

SECONDS = 20.0
MEBIBYTES = 512

CARD = """name = "n"
symbol = "s.json"
input_shape = [3, 8, 8]
classes = 2
labels = ["a", "b"]
[preprocess]
mean = [0.5, 0.5, 0.5]
std = [0.2, 0.2, 0.2]
"""


def _table(path: Path) -> None:
    write_table(CalibrationTable("minmax", 2, "x", {"a": Range(-1.0, 2.0)}, "0" * 64, "1" * 64), path)


def _manifest(path: Path) -> None:
    entry = {"sha256": "0" * 64, "size": 1}
    needed = ["model-symbol.json", "model-0000.params", "card.toml", "sample.npz", "operators.json"]
    manifest = {
        "kind": "fp32", "name": "n", "quantkit": "1", "engine": {"mxnet": "1", "numpy": "1", "isa": "avx2"},
        "input": {"name": "data", "shape": [3, 8, 8], "dtype": "float32", "layout": "NCHW"},
        "outputs": [{"name": "o", "shape": [2]}],
        "source": {"network": "n", "weights": "file", "location": "", "sha256": ""}, "settings": None,
        "fusion": {"samples": 1, "difference": 0.0, "allowed": 0.1, "changed_predictions": 0}, "agreement": None,
        "files": dict.fromkeys(needed, entry), "format": "quantkit-bundle", "version": 1,
    }  # fmt: skip
    path.write_text(json.dumps(manifest))


def _engines(path: Path) -> None:
    path.write_text(json.dumps([{"cpu": "c", "threads": 1, "versions": {"a": "1"}, "milliseconds": {"a": 1.0}}]))


def _build(path: Path) -> None:
    build = Build("b", "/python", "3.11", "1.26", "1.9.1", "/lib", ("MKLDNN",), True)
    path.write_text(json.dumps({"build": TypeAdapter(Build).dump_python(build), "stamp": "s"}))


def _params(path: Path) -> None:
    content = io.BytesIO()
    write_params(content, {"arg:w": np.ones((2, 3), np.float32), "aux:m": np.zeros(4, np.float32)})
    path.write_bytes(content.getvalue())


def _suite(path: Path) -> None:
    path.write_text((files.shipped("benchmarks") / "smoke.toml").read_text())


def _read_symbol(path: Path) -> object:
    text = read_symbol(path)
    return inference_graph(text, "x"), noted_shapes(text)


def _labels_of(path: Path) -> object:
    card = path.parent / "card.toml"
    card.write_text(CARD.replace('["a", "b"]', f'"{path.name}"'))
    return label_names(read_card(card))


# How a sound file is written, what the file is called, and how it is read.
LOADERS: dict[str, tuple[Callable[[Path], object], str, Callable[[Path], object]]] = {
    "symbol": (lambda path: path.write_text(nnvm.serialize(residual_v2())), "net-symbol.json", _read_symbol),
    "params": (_params, "net-0000.params", read_params),
    "card": (lambda path: path.write_text(CARD), "card.toml", read_card),
    "labels": (lambda path: path.write_text("a\nb\n"), "labels.txt", _labels_of),
    "manifest": (_manifest, MANIFEST, lambda path: read_manifest(path.parent)),
    "calibration table": (_table, "table.json", read_table),
    "journal": (lambda path: path.write_text('{"what": ["a"], "value": {"b": 1}}\n'), "journal.jsonl", Journal),
    "engines.json": (_engines, "engines.json", fastest._read),
    "build record": (_build, "builds/b/build.json", lambda path: build_folder.read_record("b")),
    "suite": (_suite, "suite.toml", read_suite),
    "run": (lambda path: write_run(run_of(suite()), path.parent), "run.json", lambda path: read_run(path.parent)),
    "cell": (
        lambda path: write_cell(cell([[closed_loop([3, 4])]]), path.parents[1]), f"{CELLS}/x.json",
        lambda path: read_cells(path.parents[1]),
    ),
}  # fmt: skip


def _flipped(content: bytes) -> Iterator[bytes]:
    chance = random.Random(5)
    for _ in range(60):
        changed = bytearray(content)
        changed[chance.randrange(len(changed))] = chance.randrange(256)
        yield bytes(changed)


def _retyped(content: bytes) -> Iterator[bytes]:
    """JSON with each value in turn of another type; for other formats nothing."""
    try:
        document = json.loads(content)
    except ValueError:
        return
    places: list[tuple[object, object]] = []

    def visit(value: object) -> None:
        pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in list(pairs):
            places.append((value, key))
            visit(inner)

    visit(document)
    chance = random.Random(6)
    for holder, key in chance.sample(places, min(len(places), 12)):
        before = holder[key]  # type: ignore[index]
        for other in (None, [], {}, "x", "\ud800", "\0", -1, 1 << 70, 1.5, float("nan"), float("inf"), True, [[[]]]):
            holder[key] = other  # type: ignore[index]
            yield json.dumps(document).encode()
        holder[key] = before  # type: ignore[index]


DAMAGES: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "truncated": lambda content: (content[:cut] for cut in range(0, len(content), max(1, len(content) // 60))),
    "one byte changed": _flipped,
    "emptied": lambda content: iter((b"", b"\n", b"\0" * 100, b"null", b"[]", b"{}", b"0", b'""')),
    "doubled": lambda content: iter((content * 2, content + b"\n" + content)),
    "of another type": _retyped,
    "nested deep": lambda content: iter(
        (b"[" * 300_000, b'{"a":' * 100_000, b'{"nodes":' * 100_000, b"a = " + b"[" * 300_000, b"a = " + b"{b=" * 9999)
    ),
    "long numbers": lambda content: iter((b"9" * 900_000, b"a = " + b"9" * 900_000, b"1e999", b"a = inf", b"a = nan")),
    "many parts": lambda content: iter((b"a." * 400_000 + b"a = 1", b"[" + b"a." * 400_000 + b"a]")),
    "another encoding": lambda content: iter((content.decode("latin1").encode("utf-16"), b"\xff" + content)),
    "with a byte order mark": lambda content: iter((b"\xef\xbb\xbf" + content,)),
}


@pytest.fixture
def sound(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sound file for a loader."""
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path))
    write, name, _ = LOADERS[request.param]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path)
    return path if path.is_file() else next(path.parent.iterdir())


def _outcome(load: Callable[[Path], object], path: Path) -> None:
    """Load; our errors are as good as a result."""
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    try:
        load(path)
    except QuantkitError as error:
        assert str(error).strip()
    assert time.process_time() - started < SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEBIBYTES << 10


@pytest.mark.parametrize("sound", LOADERS, indirect=True)
def test_sound_files_are_read(sound: Path, request: pytest.FixtureRequest) -> None:
    LOADERS[request.node.callspec.params["sound"]][2](sound)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("sound", LOADERS, indirect=True)
def test_damage_ends_in_our_errors(sound: Path, damage: str, request: pytest.FixtureRequest) -> None:
    load = LOADERS[request.node.callspec.params["sound"]][2]
    for content in DAMAGES[damage](sound.read_bytes()):
        sound.write_bytes(content)
        _outcome(load, sound)


def _folder(path: Path) -> None:
    path.mkdir()


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("instead", [_folder, os.mkfifo, _device, _huge], ids=["folder", "pipe", "device", "huge"])
@pytest.mark.parametrize("sound", LOADERS, indirect=True)
def test_what_is_no_such_file_neither_hangs_nor_fills_memory(
    sound: Path, instead: Callable[[Path], None], request: pytest.FixtureRequest
) -> None:
    sound.unlink()
    instead(sound)
    _outcome(LOADERS[request.node.callspec.params["sound"]][2], sound)
