from __future__ import annotations

import getpass
import json
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.bundle import read_bundle, write_float_bundle
from quantkit.bundle.card import card_text, label_lines
from quantkit.bundle.manifest import State, version_for
from quantkit.bundle.manifest_file import read_manifest
from quantkit.bundle.network import network_in
from quantkit.bundle.read import open_bundle
from quantkit.data.preprocess import Preprocess
from quantkit.errors import ModelError
from quantkit.fusion.fused_model import FusedModel, fuse_model
from quantkit.ir.graph import Graph, Tensor
from quantkit.models.card import read_card
from quantkit.models.families import Task
from quantkit.models.model import Model, Source
from quantkit.tasks.task import TaskName
from tests.networks import DATA, Builder, images
from tests.processes import environment
from tests.quantized import SPEED

WRITE_FLOAT = """
import sys
from quantkit.bundle import write_float_bundle
from quantkit.models.load import load_model
from quantkit.fusion.fused_model import fuse_model
write_float_bundle(fuse_model(load_model("digits_resnet20_v1"), "digits:train"), sys.argv[1])
"""

WRITE_INT8 = """
import sys
from quantkit.models.load import load_model
from quantkit import QuantizationConfig, quantize
quantize(load_model("digits_resnet20_v1"), "digits:train", QuantizationConfig(num_samples=8)).save(sys.argv[1])
"""


def test_two_processes_write_the_same_bytes(engine: None, tmp_path: Path) -> None:
    assert len(written_twice(WRITE_FLOAT, tmp_path)) == 7


def test_two_processes_write_the_same_int8_bytes(int8_engine: None, tmp_path: Path) -> None:
    assert len(written_twice(WRITE_INT8, tmp_path)) == 13


def written_twice(program: str, folder: Path) -> dict[Path, bytes]:
    """The files that a program writes, in two places alike, with other hashes and another home."""
    places = [folder / "one", folder / "other" / "place"]
    for seed, place in enumerate(places):
        place.mkdir(parents=True)
        env = {**environment(), "PYTHONHASHSEED": str(seed + 1), "HOME": str(place)}
        command = [sys.executable, "-c", program, str(place / "out")]
        subprocess.run(command, env=env, cwd=place, check=True, capture_output=True)
    one, other = ({path.relative_to(place): path.read_bytes() for path in place.rglob("*.*")} for place in places)
    assert one == other
    return one


def test_nothing_of_the_machine_is_written(digits_written: Path) -> None:
    # The digits network's own files are named without their folders, too.
    folders = {str(Path.cwd()), str(Path.home()), str(digits_written.parent), "/tmp", "/home"}
    private = {*folders, platform.node(), getpass.getuser()}
    for path in digits_written.iterdir():
        content = path.read_bytes()
        # In so many bytes of weights every short word occurs.
        assert [word for word in private if len(word) > 3 and word.encode() in content] == [], path.name


def test_what_was_written_is_read(written: Path, source: FusedModel) -> None:
    bundle = read_bundle(written)
    model = source.model
    assert (bundle.model.name, bundle.model.input_shape, bundle.labels) == (model.name, model.input_shape, model.labels)
    assert bundle.preprocess == model.preprocess
    assert bundle.model.source == model.source
    assert bundle.manifest.files.keys() == {path.name for path in written.iterdir()} - {"manifest.json"}
    assert [row.node for row in bundle.operators] == [node.name for node in model.graph.nodes]
    assert len(bundle.sample.outputs) == 1
    computed = run(bundle.graph, {"data": bundle.sample.input})[0]
    np.testing.assert_array_equal(computed, bundle.sample.outputs[0])


def test_a_float_bundle_computes_what_the_model_does(source: FusedModel, tmp_path: Path) -> None:
    bundle = read_bundle(write_float_bundle(source, tmp_path / "out"))
    expected = run(source.model.graph, {"data": bundle.sample.input})[0]
    np.testing.assert_allclose(bundle.sample.outputs[0], expected, atol=1e-4 * np.abs(expected).max())


def test_an_int8_bundle_tells_how_it_was_made(digits_int8, tmp_path: Path) -> None:
    bundle = read_bundle(digits_int8.save(tmp_path / "out"))
    settings, agreement = bundle.manifest.settings, bundle.manifest.agreement
    assert (settings.method, settings.samples, settings.exclude, settings.dtype) == ("mse", 8, (), "auto")
    assert bundle.table == digits_int8.table
    assert (agreement.images, agreement.top1) == (8, digits_int8.agreement.top1)
    assert "int8" in {row.precision for row in bundle.operators}


def test_a_file_size_limit_leaves_nothing_behind(engine: None, tmp_path: Path) -> None:
    limited = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited + WRITE_FLOAT, str(tmp_path / "out")],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert "QuantkitError: cannot write" in done.stderr
    assert "out: File too large; free space" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_labels_that_do_not_fit_the_outputs_are_an_error(source: FusedModel, tmp_path: Path) -> None:
    wrong = replace(source, model=replace(source.model, labels=("only", "two")))
    with pytest.raises(ModelError, match="has 2 labels for 10 outputs"):
        write_float_bundle(wrong, tmp_path / "out")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "preprocess",
    [
        None,
        Preprocess(None, None, (0.1, 1 / 3, 1e-7), (1e20, 2.0, 3.0)),
        Preprocess(256, 224, (0, 0, 0), (1, 1, 1), 127.5, True),
        Preprocess(fit="letterbox"),
    ],
)
def test_the_card_is_one_that_quantkit_reads(preprocess: Preprocess, tmp_path: Path) -> None:
    name = 'a "name" with \\ and\ttab, \x7f, é, 網 and 😀'
    graph = Graph((), ("data",), (Tensor("data"),))
    model = Model(name, graph, (3, 8, 9), preprocess, Source("n", "given"), ("a", "b"), ("*_fc", "conv0"))
    path = tmp_path / "card.toml"
    path.write_text(card_text(model, 2), encoding="utf-8")
    card = read_card(path)
    assert (card.name, card.input_shape, card.classes, card.exclude) == (name, (3, 8, 9), 2, ("*_fc", "conv0"))
    assert (card.symbol, card.params, card.labels) == ("model-symbol.json", "model-0000.params", "labels.txt")
    assert card.preprocess == preprocess


def test_labels_of_a_map_name_what_is_found(engine: None, tmp_path: Path) -> None:
    b = Builder()
    model = Model("map", b.graph(b.conv("conv", DATA, 3, 2)), (3, 16, 16), None, Source("map", "given"), ("cat", "dog"))
    written = write_float_bundle(fuse_model(model, images()), tmp_path / "map")
    assert read_bundle(written).labels == ("cat", "dog")


def test_the_task_is_kept(engine: None, tmp_path: Path) -> None:
    b = Builder()
    model = Model("map", b.graph(b.conv("conv", DATA, 3, 2)), (3, 16, 16), None, Source("map", "given"))
    for task in get_args(Task):
        kept = None if task == "classification" else task
        # The cards of detectors tell the corners of boxes.
        version = 6 if kept is None else 8 if kept in get_args(TaskName) and task != "detection" else 9
        written = write_float_bundle(fuse_model(replace(model, task=task), images()), tmp_path / task)
        bundle = read_bundle(written)
        assert (bundle.manifest.task, bundle.model.task, bundle.manifest.version) == (kept, kept, version)
        assert read_card(written / "card.toml").task == task
    state = State("state", "next", (1, 8))
    assert [version_for((state,), task) for task in (None, "pose", "language")] == [7, 8, 9]
    assert [version_for((), None, corners) for corners in (None, "edges", "pixels")] == [6, 9, 9]
    proofs = [replace(SPEED, bindings=bindings) for bindings in (1, 6)]
    assert [version_for((), speed=proof) for proof in proofs] == [6, 9]


def test_the_corners_of_boxes_are_kept(engine: None, tmp_path: Path) -> None:
    b = Builder()
    model = Model("map", b.graph(b.conv("conv", DATA, 3, 2)), (3, 16, 16), None, Source("map", "given"))
    for corners in ("edges", "pixels"):
        written = write_float_bundle(fuse_model(replace(model, box_corners=corners), images()), tmp_path / corners)  # type: ignore[arg-type]
        bundle = read_bundle(written)
        assert bundle.box_corners == bundle.model.box_corners == network_in(written).box_corners == corners
        assert bundle.manifest.version == (9 if corners == "pixels" else 6)
        assert ("box_corners" in (written / "card.toml").read_text()) == (corners == "pixels")


@pytest.mark.parametrize(("network", "corners"), [("ssd_512_resnet50_v1_voc", "pixels"), ("mine", "edges")])
def test_detectors_that_do_not_say_have_the_corners_of_their_family(
    engine: None, tmp_path: Path, network: str, corners: str
) -> None:
    b = Builder()
    graph = b.graph(b.conv("conv", DATA, 3, 2))
    model = Model("map", graph, (3, 16, 16), None, Source(network, "given"), task="detection")
    written = write_float_bundle(fuse_model(model, images()), tmp_path / "net")
    assert read_bundle(written).box_corners == "edges"
    # As bundles were before cards knew it.
    card = written / "card.toml"
    card.write_text(card.read_text().replace('box_corners = "edges"\n', ""))
    bundle = open_bundle(written, read_manifest(written))
    assert bundle.box_corners == bundle.model.box_corners == corners


def test_labels_are_one_a_line() -> None:
    labels = ["tench, Tinca tinca", "", "two\nlines", "é"]
    assert label_lines(labels).splitlines() == ["tench, Tinca tinca", "", "two lines", "é"]


def test_the_manifest_is_plain_json(written: Path) -> None:
    document = json.loads((written / "manifest.json").read_text())
    assert document["format"] == "quantkit-bundle"
    assert document["version"] == 6 and not {"notes", "step_scores", "states", "task"} & document.keys()
    assert document["input"] == {"name": "data", "shape": [3, 16, 16], "dtype": "float32", "layout": "NCHW"}
    assert document["source"]["weights"] == "given"
