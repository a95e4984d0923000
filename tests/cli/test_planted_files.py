"""Commands that are started in an untrusted folder: no file there is run or read that was not asked for."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import click
import pytest
from PIL import Image

from quantkit.deployment.watching.event_log import EventLog
from quantkit.deployment.watching.events import Started, now
from tests.cli.conftest import CLASSES, SHAPE
from tests.requirements import requires

PROGRAM = Path(sysconfig.get_path("scripts")) / "quantkit"

# What else Python, the engines, pip, matplotlib and the libraries below them are known to look for somewhere.
SETTINGS = (
    "matplotlibrc", "pip.conf", "pip.ini", "setup.cfg", "setup.py", "pyproject.toml", "tox.ini", "pydistutils.cfg",
    "constraints.txt", "requirements.txt", ".netrc", ".env", ".pdbrc", ".pythonrc", ".condarc", "pyvenv.cfg",
    "pybuilddir.txt", "python311._pth", "planted.pth", "planted.start", "logging.conf", "audit.config", "mlperf.conf",
    "plugins.xml", "cache.json", "libmxnet.so", "libgomp.so.1", "libiomp5.so", "libopenvino.so", "libonnxruntime.so",
    "site.cfg", ".numpy-site.cfg", "onednn.conf", "lscpu", "numactl", "fc-list", "gcc", "ldconfig", "python", "pip",
)  # fmt: skip
OPTIONAL = (
    "sitecustomize",
    "usercustomize",
    "torch",
    "cv2",
    "pandas",
    "graphviz",
    "tensorflow",
    "tensorrt",
    "cupy",
    "horovod",
)

# What the commands below write.
MADE = {
    "tiny-int8", "tiny-int8-analysis", "again", "fused", "tiny-benchmark", "page", "shards", "table.json", "tiny.onnx",
    "watched.html",
}  # fmt: skip

CARD = f"""
name = "tiny"
symbol = "tiny-symbol.json"
params = "tiny-0000.params"
input_shape = [{SHAPE}]
classes = {CLASSES}

[preprocess]
fit = "stretch"
mean = [0.5, 0.5, 0.5]
std = [0.5, 0.5, 0.5]
"""

IN_ACCESS, IN_OPEN, IN_ISDIR = 0x1, 0x20, 0x40000000


@pytest.fixture(scope="module")
def folder(checkpoint: Path, samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network, sample data, and a file in the name of every module and setting."""
    place = tmp_path_factory.mktemp("untrusted")
    modules = {*sys.stdlib_module_names, *packages_distributions(), *OPTIONAL, "quantkit"}
    for name in modules:
        (place / f"{name}.py").write_text(f"raise SystemExit('{name}.py was run')\n")
    for package in ("quantkit", "mxnet", "planted-1.0.dist-info"):
        (place / package).mkdir()
        (place / package / "__init__.py").write_text("raise SystemExit('a package was run')\n")
    (place / "planted-1.0.dist-info" / "METADATA").write_text("Name: planted\nVersion: 1.0\n")
    (place / "planted-1.0.dist-info" / "entry_points.txt").write_text("[pydantic]\nplanted = json:load\n")
    for name in SETTINGS:
        (place / name).write_text("planted\n")
        (place / name).chmod(0o755)
    for file in (*checkpoint.parent.iterdir(), samples):
        shutil.copy(file, place)
    (place / "tiny.toml").write_text(CARD)
    EventLog(place / "events.jsonl", Started(now(), "tiny", "0" * 64, "mxnet", 9, {})).close()
    (place / "images").mkdir()
    for image in ("photo.png", "images/photo.png"):
        Image.new("RGB", (16, 16)).save(place / image)
    return place


@contextmanager
def opened(folder: Path) -> Iterator[set[str]]:
    """The files in a folder, and in its folders, that any process opens or reads meanwhile; after inotify(7)."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    places = {}
    for place in (folder, *(each for each in folder.iterdir() if each.is_dir())):
        number = libc.inotify_add_watch(watch, os.fsencode(place), IN_OPEN | IN_ACCESS)
        assert number >= 0, os.strerror(ctypes.get_errno())
        places[number] = place
    touched: set[str] = set()
    try:
        yield touched
        while True:
            try:
                content = os.read(watch, 1 << 20)
            except BlockingIOError:
                break
            while content:
                number, mask, _, length = struct.unpack_from("iIII", content)
                assert number >= 0, "too many events were waiting"
                name = content[16 : 16 + length].rstrip(b"\0").decode()
                if not mask & IN_ISDIR:
                    touched.add(str((places[number] / name).relative_to(folder)))
                content = content[16 + length :]
    finally:
        os.close(watch)


def planted(folder: Path) -> set[str]:
    """The files that were put there in the name of others."""
    network, images = {"tiny.toml", "tiny-symbol.json", "tiny-0000.params"}, {"photo.png", "images/photo.png"}
    own = {"events.jsonl", "samples.npz", *network, *images}
    files = (path for path in folder.rglob("*") if path.is_file() and not MADE & set(path.relative_to(folder).parts))
    return {str(path.relative_to(folder)) for path in files} - own


def command(
    folder: Path, *words: Any, program: tuple[Any, ...] = (PROGRAM,), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder."""
    return subprocess.run(
        list(map(str, (*program, *words))), cwd=folder, env=elsewhere(variables), stdin=subprocess.DEVNULL,
        capture_output=True, text=True,
    )  # fmt: skip


def elsewhere(variables: dict[str, str]) -> dict[str, str]:
    """An environment that leads Python and the loader of libraries nowhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LD_"))} | variables


def serve_for_a_moment(folder: Path, *words: Any, **variables: str) -> subprocess.CompletedProcess[str]:
    """``command``, for one that goes on until it is told to end."""
    process = subprocess.Popen(
        list(map(str, (PROGRAM, *words))), cwd=folder, env=elsewhere(variables), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    process.terminate()
    rest, _ = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, first + rest, "")


def test_the_watch_sees_what_is_run(folder: Path) -> None:
    """An interpreter that is not isolated: the watch that the tests below rely on."""
    with opened(folder) as seen:
        done = command(folder, "-c", "import json", program=(sys.executable,))
    assert done.stderr.strip() == "json.py was run"
    assert seen & planted(folder) == {"json.py"}


CALIBRATED = ["tiny.toml", "--calib-data", "samples.npz", "--calib", 4]
MEASURED = ["tiny.toml", "--data", "samples.npz", "--builds", "here", "--batch", 1, "--variants", "fp32"]
COMPARED = ["tiny-int8", "--data", "samples.npz", "--num-samples", 4]

# Every verb as a user would give it in the network's folder; those of a row in turns, each finds what it needs.
VERBS = {
    "machine": [
        ["doctor"],
        ["models"],
        ["builds", "list"],
        ["builds", "check", "here"],
        ["builds", "add", "native"],
        ["cache"],
    ],
    "making": [
        ["quantize", *CALIBRATED, "--format", "mxnet,onnx", "--preset", "none", "--no-latency", "--out", "again"],
        ["finetune", "tiny.toml", "--train", "samples.npz", "--epochs", 1, "--batch-size", 8, "--out", "tuned"],
        ["fuse", "tiny.toml", "--calib-data", "samples.npz", "--out", "fused", "--no-latency"],
        ["calibrate", *CALIBRATED, "--out", "table.json"],
        ["pack", "images", "--out", "shards"],
        ["explain", "tiny-int8"],
        ["export", "tiny-int8", "--out", "tiny.onnx"],
    ],
    "judging": [
        ["evaluate", *COMPARED, "--reference", "tiny.toml"],
        ["analyze", *COMPARED, "--reference", "tiny.toml"],
        ["verify", *COMPARED, "--engine", "onnxruntime", "--engine", "openvino"],
        ["profile", "tiny-int8", "--runs", 1],
        ["predict", "tiny-int8", "photo.png"],
        ["feed", "tiny-int8", "--data", "samples.npz", "--batch", 1, "--seconds", 0.2],
    ],
    "measuring": [
        ["tune", "tiny-int8", "--budget", 0.01],
        ["benchmark", *MEASURED],
        ["compare", "tiny-benchmark", "tiny-benchmark"],
        ["report", "tiny-benchmark", "--out", "page"],
    ],
    "serving": [["serve", "tiny-int8", "--port", 0], ["watch", "events.jsonl", "--out", "watched.html"]],
}


@pytest.fixture(scope="module")
def bundle(folder: Path, int8_engine: None) -> None:
    """``tiny-int8`` in the folder, with its ONNX file."""
    requires("onnx", "onnxruntime", "openvino")
    from quantkit import QuantizationConfig, quantize
    from quantkit.bundle import quantized_model

    network = quantize(
        str(folder / "tiny.toml"), str(folder / "samples.npz"), QuantizationConfig(num_samples=4, preset="none")
    )
    network.save(folder / "tiny-int8", formats=quantized_model.FORMATS)


def test_every_verb_is_tried() -> None:
    from quantkit.cli.main import cli

    assert {words[0] for row in VERBS.values() for words in row} == set(cli.list_commands(click.Context(cli)))


@pytest.mark.usefixtures("bundle")
@pytest.mark.long
@pytest.mark.parametrize("row", VERBS)
def test_no_verb_runs_or_reads_what_lies_in_the_current_folder(folder: Path, row: str, tmp_path: Path) -> None:
    strange = planted(folder)
    # pip is started, and has nowhere to install from.
    variables = {"QUANTKIT_HOME": str(tmp_path), "PIP_NO_INDEX": "1"}
    touched = {}
    for words in VERBS[row]:
        with opened(folder) as seen:
            done = (serve_for_a_moment if words[0] == "serve" else command)(folder, *words, **variables)
        if seen & strange:
            touched[words[0]] = seen & strange
        # Without VNNI sums saturate, in each engine in its own way, and verify may find them too far apart.
        saturates = words[0] == "verify" and "no VNNI" in " ".join((done.stdout + done.stderr).split())
        wanted = int(saturates or words[:2] == ["builds", "add"])
        assert done.returncode == wanted, (words, done.stdout, done.stderr)
    assert not touched


@pytest.mark.parametrize(
    ("program", "variables"),
    [((PROGRAM,), {"PYTHONPATH": ":"}), ((sys.executable, "-m", "quantkit"), {})],
    ids=["an empty entry in PYTHONPATH", "python -m"],
)
def test_the_current_folder_is_left_even_where_python_starts_from_it(
    folder: Path, program: tuple[Any, ...], variables: dict[str, str], tmp_path: Path, int8_engine: None
) -> None:
    """What Python itself imports before quantkit begins nobody can keep it from."""
    for path in folder.glob("*.py"):
        if path.stem in {"click", "ctypes", "json", "mxnet", "numpy", "pydantic", "rich", "torch", "onnx", "traceback"}:
            shutil.copy(path, tmp_path)
    with opened(tmp_path) as seen:
        done = command(tmp_path, "doctor", program=program, **variables)
    assert done.returncode == 0, done.stderr
    assert not seen
