"""Every mistake of the user's: exit code, one clear message, no traceback, nothing written."""

from __future__ import annotations

import json
import os
import re
import resource
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import SHAPE, Run

Folder = Path
Prepare = Callable[[Folder, Path], list[object]]


def _copied(folder: Folder, checkpoint: Path) -> Path:
    for ending in ("-symbol.json", "-0000.params"):
        (folder / f"net{ending}").write_bytes(Path(f"{checkpoint}{ending}").read_bytes())
    return folder / "net-0000.params"


def _data(folder: Folder, **arrays: np.ndarray) -> list[object]:
    np.savez(folder / "data.npz", **arrays)
    return ["--calib-data", "data.npz"]


def _noise(count: int = 8, *shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(0).normal(0, 1, (count, *(shape or (3, 16, 16)))).astype(dtype)


def _with_patched_params(position: int, value: bytes) -> Prepare:
    def prepare(folder: Folder, checkpoint: Path) -> list[object]:
        params = _copied(folder, checkpoint)
        content = bytearray(params.read_bytes())
        content[position : position + len(value)] = value
        params.write_bytes(content)
        return ["quantize", "net"]

    return prepare


def _with_nan_weights(folder: Folder, checkpoint: Path) -> list[object]:
    params = _copied(folder, checkpoint)
    content = params.read_bytes()
    # Behind the list's header and the first array's: its first value.
    start = 24 + 4 + 4 + 4 + 8 * struct.unpack_from("<I", content, 32)[0] + 8 + 4
    params.write_bytes(content[:start] + struct.pack("<f", float("nan")) + content[start + 4 :])
    return ["quantize", "net"]


def _with_empty_symbol(folder: Folder, checkpoint: Path) -> list[object]:
    _copied(folder, checkpoint)
    (folder / "net-symbol.json").write_text("")
    return ["quantize", "net"]


def _with_nan_data(folder: Folder, checkpoint: Path) -> list[object]:
    images = _noise()
    images[3, 0, 0, 0] = np.nan
    return ["quantize", checkpoint, *_data(folder, x=images)]


def _with_data(*options: object, **arrays: np.ndarray) -> Prepare:
    return lambda folder, checkpoint: ["quantize", checkpoint, *_data(folder, **arrays), *options]


def _with_empty_folder(folder: Folder, checkpoint: Path) -> list[object]:
    (folder / "photos").mkdir()
    return ["quantize", checkpoint, "--calib-data", "photos"]


def _with_unreadable_image(folder: Folder, checkpoint: Path) -> list[object]:
    (folder / "photos").mkdir()
    (folder / "photos" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing more")
    return ["quantize", "cifar_resnet20_v1", "--weights", "random", "--calib-data", "photos"]


def _with_existing(name: str) -> Prepare:
    def prepare(folder: Folder, checkpoint: Path) -> list[object]:
        (folder / "out").mkdir()
        (folder / "out" / name).write_text("kept")
        return ["quantize", checkpoint, "--out", "out"]

    return prepare


def _with_file_as_folder(folder: Folder, checkpoint: Path) -> list[object]:
    (folder / "file").write_text("kept")
    return ["quantize", checkpoint, "--out", "file/out"]


def _with_corrupt_table(folder: Folder, checkpoint: Path) -> list[object]:
    (folder / "table.json").write_text("{")
    return ["quantize", checkpoint, "--calib-table", "table.json"]


def _with_int8_symbol(folder: Folder, checkpoint: Path) -> list[object]:
    _copied(folder, checkpoint)
    symbol = {
        "nodes": [
            {"op": "null", "name": "data", "inputs": []},
            {"op": "_contrib_quantize_v2", "name": "q", "inputs": [[0, 0, 0]], "attrs": {}},
        ],
        "arg_nodes": [0],
        "heads": [[1, 0, 0]],
    }
    (folder / "net-symbol.json").write_text(json.dumps(symbol))
    return ["quantize", "net"]


def _with_bundle(folder: Folder, checkpoint: Path) -> list[object]:
    (folder / "bundle").mkdir()
    (folder / "bundle" / "manifest.json").write_text("{}")
    return ["quantize", "bundle"]


def _labelled(count: int, classes: int) -> Prepare:
    def prepare(folder: Folder, checkpoint: Path) -> list[object]:
        np.savez(folder / "data.npz", x=_noise(count), y=np.full(count, classes))
        return ["evaluate", checkpoint, "--data", "data.npz"]

    return prepare


def _unlabelled(folder: Folder, checkpoint: Path) -> list[object]:
    np.savez(folder / "data.npz", x=_noise())
    return ["evaluate", checkpoint, "--data", "data.npz"]


def _plain(*arguments: object) -> Prepare:
    return lambda folder, checkpoint: list(arguments)


def _on_net(*options: object) -> Prepare:
    return lambda folder, checkpoint: ["quantize", checkpoint, *options]


CASES: dict[str, tuple[Prepare, str]] = {
    "unknown model": (_plain("quantize", "resnet5", "--weights", "random"), "resnet50"),
    "no such checkpoint": (_plain("quantize", "no/such"), "no such name"),
    "a folder": (_plain("quantize", "."), "folder"),
    "no such data": (_on_net("--calib-data", "no/such"), "no sample data"),
    "no such split": (_on_net("--calib-data", "digits:middle"), "split"),
    "empty folder": (_with_empty_folder, "photos"),
    "no samples": (_with_data(x=np.zeros((0, 3, 16, 16), "float32")), "data.npz"),
    "unreadable image": (_with_unreadable_image, "broken.png"),
    "more than there are": (_with_data("--calib", 9, x=_noise()), "8"),
    "not a number of images": (_on_net("--calib", 0), "0"),
    "NaN in the data": (_with_nan_data, "NaN"),
    "all-zero data": (_with_data(x=np.zeros((8, 3, 16, 16), "float32")), "constant"),
    "wrong height": (_with_data(x=_noise(8, 3, 15, 16)), "(3, 15, 16)"),
    "float64 data": (_with_data(x=_noise(dtype="float64")), "float64"),
    "uint8 data without preprocessing": (_with_data(x=np.full((8, 16, 16, 3), 9, "uint8")), "uint8"),
    "NaN weights": (_with_nan_weights, "NaN"),
    "damaged header": (_with_patched_params(32, b"\xff\xff\xff\xff"), "net-0000.params"),
    "damaged magic number": (_with_patched_params(0, os.urandom(8)), "net-0000.params"),
    "flipped bytes": (_with_patched_params(8, bytes(0xFF ^ byte for byte in bytes(100))), "net-0000.params"),
    "empty symbol": (_with_empty_symbol, "empty"),
    "INT8 symbol": (_with_int8_symbol, "INT8"),
    "a bundle": (_with_bundle, "bundle"),
    "wrong input shape": (_on_net("--input-shape", "3,16"), "(3, 16)"),
    "two shapes without names": (_on_net("--input-shape", "3,16,16", "--input-shape", "5"), "a name of its own"),
    "two shapes of a name": (_on_net("--input-shape", "a=3,16,16", "--input-shape", "a=5"), "a name of its own"),
    "a shape of no input": (_on_net("--input-shape", "a=3,16,16"), "has no input 'a'"),
    "endless input shape": (_on_net("--input-shape", "3,16,16,1,1"), "3,224,224"),
    "odd digits": (_on_net("--input-shape", "3,\N{SUPERSCRIPT TWO},3"), "3,224,224"),
    "endless input": (_on_net("--input-shape", f"3,{'9' * 5000},3"), "3,224,224"),
    "input beyond MXNet's": (_on_net("--input-shape", "3,9999999999,3"), "3,224,224"),
    "input too small": (_plain("explain", "alexnet", "--weights", "random", "--input-shape", "3,8,8"), "(3, 8, 8)"),
    "batch beyond MXNet's": (_plain("benchmark", "smoke", "--batch", "1,9999999999"), "batch sizes"),
    "unknown exclusion": (_on_net("--exclude", "brunch"), "branch"),
    "unknown method": (_on_net("--method", "median"), "entropy"),
    "method out of range": (_on_net("--method", "percentile:200"), "200"),
    "uint8 for negative values": (_with_data("--dtype", "uint8", x=_noise()), "uint8"),
    "no such weights file": (_on_net("--weights", "none.params"), "none.params"),
    "no such table": (_on_net("--calib-table", "none.json"), "none.json"),
    "corrupt table": (_with_corrupt_table, "table.json"),
    "table and count": (_on_net("--calib-table", "t.json", "--calib", 3), "--calib "),
    "table and method": (_on_net("--calib-table", "t.json", "--method", "mse"), "--method"),
    "output exists": (_with_existing("manifest.json"), "--force"),
    "output is not a bundle": (_with_existing("thesis.tex"), "choose another"),
    "output below a file": (_with_file_as_folder, "file"),
    "label out of range": (_labelled(8, 7), "7 classes"),
    "no labels": (_unlabelled, "--reference"),
    "no such option": (_plain("quantize", "--calibrate"), "--calibrate"),
    "no such verb": (_plain("quantise"), "quantise"),
    "not a bundle": (_plain("verify", "."), "not a bundle"),
}


def _files(folder: Folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_bad_input(run: Run, checkpoint: Path, int8_engine: None, tmp_path: Path, case: str, as_json: bool) -> None:
    prepare, told = CASES[case]
    arguments = prepare(tmp_path, checkpoint)
    own_shape = "--input-shape" in arguments or "cifar_resnet20_v1" in arguments
    if arguments[:1] in (["quantize"], ["evaluate"]) and not own_shape:
        arguments += ["--input-shape", SHAPE]
    if arguments[1:2] == [checkpoint] and "--calib-data" not in arguments and arguments[0] == "quantize":
        arguments += ["--calib-data", "good.npz"]
        np.savez(tmp_path / "good.npz", x=_noise())
    before = _files(tmp_path)
    result = run(*arguments, *(["--json"] if as_json else []))
    assert result.exit_code == 2, result.output
    (error,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert told in error
    assert "Traceback" not in result.output
    assert _files(tmp_path) == before
    if as_json:
        assert told in json.loads(result.stdout)["error"]["message"]
    else:
        assert result.stdout == ""


@pytest.mark.parametrize(
    "case",
    [
        "a bundle", "no such data", "empty folder", "more than there are", "unknown method", "method out of range",
        "no such weights file", "no such table", "corrupt table", "table and count", "output exists",
        "output is not a bundle", "output below a file",
    ],
)  # fmt: skip
def test_mistakes_are_found_before_the_network_is_loaded(
    run: Run, checkpoint: Path, int8_engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr("quantkit.models.load.load_model", lambda *_, **__: pytest.fail("the network was loaded"))
    assert run(*CASES[case][0](tmp_path, checkpoint)).exit_code == 2


def test_exclusions_are_checked_before_calibration(
    run: Run, checkpoint: Path, samples: Path, int8_engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quantkit.stages.calibrate", lambda *_, **__: pytest.fail("calibration began"))
    arguments = ["--input-shape", SHAPE, "--calib-data", samples, "--exclude", "brunch"]
    assert run("quantize", checkpoint, *arguments).exit_code == 2


def test_a_table_of_another_network_is_refused(run: Run, checkpoint: Path, samples: Path, int8_engine: None) -> None:
    common = ["--input-shape", SHAPE, "--calib-data", samples]
    assert run("calibrate", checkpoint, *common, "--weights", "random", "--out", "other.json").exit_code == 0
    result = run("quantize", checkpoint, *common, "--calib-table", "other.json")
    assert (result.exit_code, "another network" in result.stderr) == (2, True)


def test_a_full_disk_leaves_nothing(
    run: Run, checkpoint: Path, samples: Path, int8_engine: None, tmp_path: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        result = run("quantize", checkpoint, "--input-shape", SHAPE, "--calib-data", samples)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.exit_code == 1
    assert "Error: cannot write" in result.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("fuse", "net", "--out", "{long}/net"),
        ("profile", "net", "--out", "{long}"),
        ("export", "net", "--out", "{long}.onnx"),
        ("calibrate", "net", "--out", "{long}/table.json"),
        ("compare", "{long}", "{long}"),
        ("fuse", "digits_resnet20_v1", "--out", "out", "--weights", "{long}"),
    ],
    ids=" ".join,
)
def test_paths_that_no_file_can_have(run: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    refused = run(*(word.format(long=tmp_path / ("x" * 300)) for word in arguments))
    assert refused.exit_code == 2
    told = rf"^Error: cannot use {tmp_path}/x+\S*: File name too long; choose a shorter path$"
    assert re.search(told, refused.stderr, re.MULTILINE)
