"""``evaluate`` from the outside: its figures against NumPy's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from quantkit.formats.mxnet.params import read_params, write_params
from tests.cli.conftest import SHAPE, Run


@pytest.fixture
def changed(checkpoint: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The network with its last layer a little larger, and with its sign turned."""
    params = read_params(Path(f"{checkpoint}-0000.params"))
    near, far = tmp_path / "near", tmp_path / "far"
    for prefix, factor in ((near, 1.1), (far, -1)):
        with open(f"{prefix}-0000.params", "wb") as file:
            write_params(file, {**params, "arg:dense_weight": np.float32(factor) * params["arg:dense_weight"]})
        shutil.copy(f"{checkpoint}-symbol.json", f"{prefix}-symbol.json")
    return near, far


@pytest.mark.parametrize("kind", ["int8", "fp32"])
def test_evaluate_counts_as_numpy_does(
    run: Run, checkpoint: Path, int8_engine: None, samples: Path, tmp_path: Path, kind: str
) -> None:
    from quantkit.backends.mxnet.execute import run as run_graph
    from quantkit.bundle import read_bundle
    from quantkit.models.load import load_model

    options = ["--input-shape", SHAPE, "--calib-data", samples, "--out", "b", "--no-latency"]
    assert run("quantize", checkpoint, *options).exit_code == 0
    spec, reference = ("b", checkpoint) if kind == "int8" else (checkpoint, "b")
    result = run("evaluate", spec, "--data", samples, "--reference", reference, "--input-shape", SHAPE, "--json")
    document = json.loads(result.stdout)
    with np.load(samples) as archive:
        images, labels = archive["x"], archive["y"]
    fp32 = run_graph(load_model(checkpoint, input_shape=(3, 16, 16)).graph, {"data": images})[0]
    int8 = run_graph(read_bundle(tmp_path / "b").graph, {"data": images})[0]
    mine = int8 if kind == "int8" else fp32
    ranked = np.argsort(-mine, axis=1)
    assert document["images"] == 23
    assert document["accuracy"]["top1"] == pytest.approx((ranked[:, 0] == labels).mean())
    assert document["accuracy"]["top5"] == pytest.approx((ranked[:, :5] == labels[:, None]).any(axis=1).mean())
    assert document["agreement"]["top1"] == pytest.approx((fp32.argmax(1) == int8.argmax(1)).mean())
    lengths = np.linalg.norm(fp32, axis=1) * np.linalg.norm(int8, axis=1)
    assert document["agreement"]["cosine"] == pytest.approx(((fp32 * int8).sum(1) / lengths).mean(), abs=1e-6)
    right, other = ranked[:, 0] == labels, (fp32 if kind == "int8" else int8).argmax(1) == labels
    (comparison,) = document["comparisons"]
    assert (comparison["measure"], comparison["with"]) == ("accuracy", "reference")
    assert comparison["first_only"] == (right & ~other).sum()
    assert comparison["other_only"] == (other & ~right).sum()


def test_evaluate_holds_classes_to_a_goal(
    run: Run, checkpoint: Path, changed: tuple[Path, Path], samples: Path, tmp_path: Path
) -> None:
    from quantkit.backends.mxnet.execute import run as run_graph
    from quantkit.models.load import load_model

    near, far = changed
    with np.load(samples) as archive:
        images = archive["x"]
    scores = run_graph(load_model(checkpoint, input_shape=(3, 16, 16)).graph, {"data": images})[0]
    np.savez(tmp_path / "unlabelled.npz", x=images)
    # The reference is right but for two images.
    np.savez(tmp_path / "labelled.npz", x=images, y=np.where(np.arange(23) < 2, scores.argmin(1), scores.argmax(1)))
    common = ["--input-shape", SHAPE, "--reference", checkpoint]
    for data, what in ((tmp_path / "labelled.npz", "accuracy"), (tmp_path / "unlabelled.npz", "agreement")):
        done = run("evaluate", near, "--data", data, *common, "--max-drop", "0")
        assert done.exit_code == 0 and "met: loss 0.00 of 0 points" in done.stdout, done.stderr
        document = json.loads(run("evaluate", far, "--data", data, *common, "--max-drop", "100", "--json").stdout)
        assert (document["max_drop"], document["met"]) == (100, True)
        share = 1.0 if what == "agreement" else document["reference_accuracy"]["top1"]
        lost = 100 * (share - document[what]["top1"])
        for goal, code in ((lost + 0.1, 0), (lost - 0.1, 4)):
            if 0 <= goal <= 100:
                done = run("evaluate", far, "--data", data, *common, "--max-drop", goal, "--json")
                assert (done.exit_code, json.loads(done.stdout)["met"]) == (code, code == 0)
        assert lost > 20
    assert "MISSED: loss" in run("evaluate", far, "--data", data, *common, "--max-drop", "0").stdout
    alone = run("evaluate", near, "--data", samples, "--input-shape", SHAPE, "--max-drop", "1")
    assert alone.exit_code == 2 and "loses against its reference; give a --reference" in alone.stderr
    assert json.loads(run("evaluate", near, "--data", samples, *common, "--json").stdout)["met"] is None


def test_a_goal_that_is_just_met(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    """98 of 100 agree: in floating point 1 - 0.98 is a little more than 0.02."""
    from quantkit.backends.mxnet.execute import run as run_graph
    from quantkit.models.load import load_model

    images = np.random.default_rng(2).normal(0, 1, (100, 3, 16, 16)).astype("float32")
    scores = run_graph(load_model(checkpoint, input_shape=(3, 16, 16)).graph, {"data": images})[0]
    least = scores.mean(axis=0).argmin()
    behind = scores.max(axis=1) - scores[:, least]
    # In half of the images this class comes first now.
    params = read_params(Path(f"{checkpoint}-0000.params"))
    bias = params["arg:dense_bias"].copy()
    bias[least] += np.median(behind)
    with open(tmp_path / "other-0000.params", "wb") as file:
        write_params(file, {**params, "arg:dense_bias": bias})
    shutil.copy(f"{checkpoint}-symbol.json", tmp_path / "other-symbol.json")
    order = behind.argsort()
    np.savez(tmp_path / "images.npz", x=images[[*order[:2], *np.resize(order[-40:], 98)]])
    common = ["evaluate", "other", "--data", "images.npz", "--input-shape", SHAPE, "--reference", checkpoint]
    for goal, code in ((2, 0), (1.99, 4)):
        done = run(*common, "--max-drop", goal)
        assert done.exit_code == code, done.stdout


def test_evaluate_stops_at_the_limit(run: Run, checkpoint: Path, samples: Path) -> None:
    options = ["--num-samples", 9, "--batch-size", 4, "--input-shape", SHAPE]
    result = run("evaluate", checkpoint, "--data", samples, *options, "--json")
    assert json.loads(result.stdout)["images"] == 9


def test_evaluate_tells_which_of_two_networks_is_better(
    run: Run, checkpoint: Path, changed: tuple[Path, Path], tmp_path: Path
) -> None:
    from quantkit.backends.mxnet.execute import run as run_graph
    from quantkit.models.load import load_model

    near, far = changed
    images = np.random.default_rng(2).normal(0, 1, (20, 3, 16, 16)).astype("float32")
    outputs = {
        each: run_graph(load_model(each, input_shape=(3, 16, 16)).graph, {"data": images})[0]
        for each in (checkpoint, near, far)
    }
    classes = {each: output.argmax(1) for each, output in outputs.items()}
    second = outputs[near].argsort(1)[:, -2]
    labels = np.where(np.arange(20) < 12, classes[far], np.where(np.arange(20) < 16, classes[near], second))
    np.savez(tmp_path / "labelled.npz", x=images, y=labels)
    options = ["--reference", checkpoint, "--data", "labelled.npz", "--input-shape", SHAPE]
    for first, other, verdict in ((near, far, "ahead"), (far, near, "behind")):
        result = json.loads(run("evaluate", first, "--against", other, *options, "--json").stdout)
        comparisons = {(each["measure"], each["with"]): each for each in result["comparisons"]}
        assert list(comparisons) == [("accuracy", "reference"), ("accuracy", "against"), ("agreement", "against")]
        assert comparisons["agreement", "against"]["verdict"] == verdict
        for (measure, role), each in comparisons.items():
            target = labels if measure == "accuracy" else classes[checkpoint]
            one, two = (classes[path] == target for path in (first, checkpoint if role == "reference" else other))
            assert (each["first_only"], each["other_only"]) == ((one & ~two).sum(), (two & ~one).sum())
        assert f": {verdict}\n" in run("evaluate", first, "--against", other, *options).stdout


def test_evaluate_refuses_to_compare_unlike_networks(run: Run, checkpoint: Path, samples: Path) -> None:
    common = ["evaluate", checkpoint, "--data", samples, "--input-shape", SHAPE]
    result = run(*common, "--against", "digits_resnet20_v1")
    assert result.exit_code == 2
    assert "the other network digits_resnet20_v1" in result.stderr


def test_evaluate_refuses_a_reference_that_was_never_trained(run: Run, checkpoint: Path, samples: Path) -> None:
    options = ["--input-shape", SHAPE]
    assert run("fuse", checkpoint, *options, "--calib-data", samples, "--out", "b", "--no-latency").exit_code == 0
    random = [*options, "--weights", "random"]
    result = run("evaluate", "b", "--data", samples, "--reference", checkpoint, *random)
    assert result.exit_code == 2
    assert "has random weights here" in result.stderr
    assert run("evaluate", checkpoint, "--data", samples, "--reference", checkpoint, *random).exit_code == 0
