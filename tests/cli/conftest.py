"""A small trained-looking network on disk, and a way to run commands inside and outside this process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from tests.benchmark.interpreters import fake as fake

SHAPE = "3,16,16"
CLASSES = 7

COLOURS = "blue", "green", "red"
"""The classes of the photographs that networks learn."""

PROMPTLY = 5.0
"""How long Ctrl-C may take, in seconds, where cores are busy; what it interrupts would take far longer."""

Run = Callable[..., Result]
ListedCards = Callable[[Callable[[], Any]], None]


@pytest.fixture(scope="session")
def checkpoint(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prefix of a checkpoint: convolution, batch normalization, ReLU, shortcut, pooling, dense; weights drawn."""
    from quantkit.backends.mxnet.compat import load_mxnet

    mx = load_mxnet()
    data = mx.sym.Variable("data")
    first = mx.sym.Convolution(data, kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=True, name="first")
    normal = mx.sym.BatchNorm(first, fix_gamma=False, name="normal")
    stem = mx.sym.Activation(normal, act_type="relu", name="stem")
    branch = mx.sym.Convolution(stem, kernel=(3, 3), pad=(1, 1), num_filter=8, name="branch")
    joined = mx.sym.Activation(mx.sym.elemwise_add(branch, stem, name="sum"), act_type="relu", name="joined")
    pooled = mx.sym.Pooling(joined, global_pool=True, pool_type="avg", kernel=(1, 1), name="pooled")
    network = mx.sym.FullyConnected(mx.sym.Flatten(pooled, name="flat"), num_hidden=CLASSES, name="dense")
    random = np.random.default_rng(0)
    shapes, _, auxiliary = network.infer_shape(data=(1, 3, 16, 16))
    named = {f"arg:{name}": shape for name, shape in zip(network.list_arguments(), shapes) if name != "data"}
    named.update({f"aux:{name}": shape for name, shape in zip(network.list_auxiliary_states(), auxiliary)})
    arrays = {name: random.normal(0.2, 0.3, shape) for name, shape in named.items()}
    arrays["aux:normal_moving_var"] = np.ones(8)
    prefix = tmp_path_factory.mktemp("checkpoint") / "tiny"
    network.save(f"{prefix}-symbol.json")
    mx.nd.save(f"{prefix}-0000.params", {name: mx.nd.array(value) for name, value in arrays.items()})
    return prefix


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """23 preprocessed samples with labels."""
    random = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("samples") / "samples.npz"
    np.savez(path, x=random.normal(0, 1, (23, 3, 16, 16)).astype("float32"), y=random.integers(0, CLASSES, 23))
    return path


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process, in an empty folder."""
    from quantkit.cli.main import cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def invoke(*arguments: Any) -> Result:
        return runner().invoke(cli, [str(argument) for argument in arguments])

    return invoke


def runner() -> CliRunner:
    """A runner that keeps the two streams apart."""
    try:
        return CliRunner(mix_stderr=False)  # click 8.1
    except TypeError:
        return CliRunner()


def start(folder: Path, *arguments: Any, **environment: str) -> subprocess.Popen[str]:
    """Start a command in a process of its own."""
    root = str(Path(__file__).parents[2])
    return subprocess.Popen(
        [sys.executable, "-m", "quantkit", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root, "COLUMNS": "100", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def listed_cards(monkeypatch: pytest.MonkeyPatch) -> ListedCards:
    """Have `quantkit models` take its cards from another function."""
    # Modules that are loaded meanwhile would keep it.
    import_module("quantkit.models.catalogue")
    return lambda cards: monkeypatch.setattr("quantkit.models.card.cards", cards)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """36 noisy images, a folder for each of three colours."""
    random = np.random.default_rng(0)
    for place, name in enumerate(COLOURS):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(12):
            pixels = random.integers(0, 120, (16, 16, 3), np.uint8)
            pixels[:, :, 2 - place] += 100
            Image.fromarray(pixels).save(folder / f"{number:02}.png")
    return tmp_path / "photos"


@pytest.fixture
def card(checkpoint: Path, tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    for name in ("tiny-symbol.json", "tiny-0000.params"):
        (tmp_path / name).write_bytes((checkpoint.parent / name).read_bytes())
    path.write_text(
        'name = "tiny"\nsymbol = "tiny-symbol.json"\nparams = "tiny-0000.params"\n'
        "input_shape = [3, 16, 16]\nclasses = 7\n"
        "[preprocess]\nmean = [0.5, 0.5, 0.5]\nstd = [0.25, 0.25, 0.25]\n"
    )
    return path
