"""``quantkit predict``, and ``quantkit evaluate --task``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from quantkit.backends.registry import MXNET
from quantkit.bundle import Bundle, read_bundle
from quantkit.deployment.deployment_file import Deployment, TunedBundle, deployment_text, this_host
from quantkit.deployment.instances import Instances
from quantkit.deployment.loading import load
from quantkit.deployment.predictor import Predictor
from tests.cli.conftest import Run
from tests.data.annotations import coco_document, coco_file, voc_folder
from tests.networks import DATA, Builder
from tests.requirements import requires
from tests.tasks.networks import COLUMNS, RAW, ROWS, box_detector, bundle, colour_segmenter, pixel_detector, pixels

CAT, DOG = ((0.0, 0.0, 3.0, 6.0), 0.9, 0), ((2.0, 5.0, 6.0, 11.0), 0.4, 1)
OBJECTS = [("cat", CAT[0], 0), ("dog", DOG[0], 0)]


@pytest.fixture(scope="module")
def bundles(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Detectors: ``net``, and ``far``, whose boxes lie elsewhere."""
    folder = tmp_path_factory.mktemp("bundles")
    for name, shift in (("net", 0.0), ("far", 2.5)):
        bundle(pixel_detector(shift), (3, ROWS, COLUMNS), RAW, ("cat", "dog"), folder / name)
    return folder


@pytest.fixture
def voc(tmp_path: Path) -> Path:
    root = voc_folder(tmp_path / "voc", {"a": ((ROWS, COLUMNS), OBJECTS), "b": ((ROWS, COLUMNS), OBJECTS[:1])})
    for name, image in (("a", pixels(CAT, DOG)), ("b", pixels(CAT))):
        Image.fromarray(image).save(root / "JPEGImages" / f"{name}.png")
    return root


def deployment(bundle: Bundle) -> Deployment:
    """In two instances here, with three threads that decode."""
    of = TunedBundle(bundle.manifest.name, bundle.manifest.kind, bundle.sha256)
    return Deployment(of, this_host(), "mxnet", MXNET.installed_version(), Instances(2), workers=3)


def test_predict_tells_and_draws(run: Run, bundles: Path, voc: Path, tmp_path: Path) -> None:
    done = run("predict", bundles / "net", voc / "JPEGImages", "--draw", "out/drawn", "--least-score", "0.3", "--json")
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["task"], result["engine"]) == ("detection", "mxnet")
    first, second = result["images"]
    assert [each["class"] for each in first["values"]] == ["cat", "dog"]
    assert first["picture"] == "out/drawn/a.png" and first["file"].endswith("a.png") and len(second["values"]) == 1
    assert np.asarray(Image.open(tmp_path / "out/drawn/a.png")).shape == (ROWS, COLUMNS, 3)
    again = run("predict", bundles / "net", voc / "JPEGImages", "--draw", "out/drawn")
    assert again.exit_code == 2 and "out/drawn/a.png exists already; replace it with --force" in again.stderr
    assert "or choose another place with --draw" in again.stderr
    forced = run("predict", bundles / "net", voc / "JPEGImages", "--draw", "out/drawn", "--force")
    assert forced.exit_code == 0 and "a.png -> out/drawn/a.png\n  0.900 cat 0 0 3 6\n" in forced.stdout


@pytest.mark.long
def test_predict_runs_as_a_deployment_says(run: Run, bundles: Path, voc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("predict", bundles / "net", voc / "JPEGImages", "--json")
    alone = run(*given)
    Path("deployment.toml").write_text(deployment_text(deployment(read_bundle(bundles / "net"))))
    predictors: list[Predictor] = []

    def noted(*arguments: Any, **options: Any) -> Predictor:
        predictors.append(load(*arguments, **options))
        return predictors[-1]

    monkeypatch.setattr("quantkit.deployment.loading.load", noted)
    for options, workers in (((), 3), (("--workers", "5"), 5)):
        deployed = run(*given, "--deployment", "deployment.toml", *options)
        assert json.loads(deployed.stdout) == json.loads(alone.stdout)
        assert "2 instances" in repr(predictors[-1])
        assert predictors[-1]._inputs.workers == workers
    refused = run(*given, "--deployment", "deployment.toml", "--instances", "2")
    assert refused.exit_code == 2 and "says engine and instances" in refused.stderr


@pytest.mark.long
def test_predict_spreads_images_over_instances(run: Run, bundles: Path, voc: Path) -> None:
    given = ("predict", bundles / "net", voc / "JPEGImages", "--json")
    alone, spread = run(*given), run(*given, "--instances", "2")
    assert spread.exit_code == 0, spread.stderr
    assert json.loads(spread.stdout) == json.loads(alone.stdout)
    refused = run(*given, "--instances", "everywhere")
    assert refused.exit_code == 2 and "there is no placement 'everywhere'" in refused.stderr


def test_predict_refuses_pictures_that_would_replace_others(run: Run, bundles: Path, voc: Path) -> None:
    images = voc / "JPEGImages"
    done = run("predict", bundles / "net", images, images / "a.png", "--draw", "out")
    assert done.exit_code == 2 and "two images would be drawn as out/a.png" in done.stderr
    done = run("predict", bundles / "net", images, "--draw", images, "--force")
    assert done.exit_code == 2 and "is one of the images, which its picture would replace" in done.stderr
    assert np.array_equal(np.asarray(Image.open(images / "a.png")), pixels(CAT, DOG))


def test_predict_refuses_what_does_not_fit(run: Run, bundles: Path, voc: Path, tmp_path: Path) -> None:
    done = run("predict", bundles / "net", voc / "JPEGImages", "--task", "segmentation", "--draw", "drawn")
    assert done.exit_code == 2 and "segmentation needs outputs that are scores" in done.stderr
    assert not (tmp_path / "drawn").exists()
    done = run("predict", bundles / "net", "nowhere.png")
    assert done.exit_code == 2 and "there is no image nowhere.png" in done.stderr


def test_predict_bounds_overlaps_where_the_network_leaves_them(run: Run, bundles: Path, tmp_path: Path) -> None:
    net = bundle(box_detector(), (3, ROWS, COLUMNS), RAW, ("face",), tmp_path / "open")
    image = tmp_path / "a.png"
    Image.fromarray(pixels(((0.0, 0.0, 5.0, 5.0), 0.9, 0), ((0.0, 0.0, 5.0, 2.0), 0.8, 0))).save(image)
    for options, number in (([], 2), (["--max-overlap", "0.3"], 1)):
        done = run("predict", net, image, *options, "--json")
        assert done.exit_code == 0 and len(json.loads(done.stdout)["images"][0]["values"]) == number, done.stderr
    done = run("predict", bundles / "net", image, "--max-overlap", "0.3")
    assert done.exit_code == 2 and "leave out max_overlap (--max-overlap)" in done.stderr


def test_predict_names_the_use_of_a_network_without_predictions(run: Run, engine: None, tmp_path: Path) -> None:
    from quantkit.data.preprocess import Preprocess

    stretched = Preprocess(fit="stretch")
    # As maps of three classes these outputs would do.
    net = bundle(colour_segmenter(8), (3, 8, 8), stretched, (), tmp_path / "net", "depth")
    image = tmp_path / "a.png"
    Image.new("RGB", (8, 8)).save(image)
    done = run("predict", net, image)
    assert done.exit_code == 2 and "nor a map of classes (it is for depth); call Predictor.predict()" in done.stderr
    b = Builder()
    scores = b.dense("scores", b.op("mean", "pooled", DATA, axis=(2, 3)), 3, 6)
    clips = bundle(b.graph(scores), (3, 8, 8), stretched, (), tmp_path / "clips", "action")
    assert json.loads(run("predict", clips, image, "--json").stdout)["task"] == "classification"


def test_evaluate_judges_by_the_task(run: Run, bundles: Path, voc: Path) -> None:
    common = ["evaluate", bundles / "net", "--task", "detection", "--data", voc]
    done = run(*common, "--json")
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["task"], result["images"], result["met"]) == ("detection", 2, None)
    assert [each["value"] for each in result["scores"]["network"]] == [1.0, pytest.approx(1.0)]
    assert "VOC12 mAP 100.0 % [100.0 %, 100.0 %]" in run(*common).stdout


@pytest.mark.long
def test_evaluate_holds_a_network_to_its_goal(run: Run, bundles: Path, voc: Path) -> None:
    common = ["--task", "detection", "--data", voc, "--max-drop", "0.5"]
    done = run("evaluate", bundles / "net", "--reference", bundles / "net", *common)
    assert done.exit_code == 0, done.stderr
    assert "goal" in done.stdout and "met: loss 0.00 of 0.5 points" in done.stdout
    assert "VOC12 mAP +0.00 points [+0.00, +0.00]: not distinguishable" in done.stdout
    whole = ["--task", "detection", "--data", voc, "--max-drop", "100"]
    assert run("evaluate", bundles / "far", "--reference", bundles / "net", *whole).exit_code == 0
    done = run("evaluate", bundles / "far", "--reference", bundles / "net", *common)
    assert done.exit_code == 4, done.stderr
    assert "MISSED: loss 100.00 of 0.5 points" in done.stdout and "-100.00 points" in done.stdout
    for others in ([], ["--against", bundles / "net"]):
        alone = run("evaluate", bundles / "net", *others, *common)
        assert alone.exit_code == 2 and "loses against its reference; give a --reference" in alone.stderr
    unnamed = run("evaluate", bundles / "net", "--reference", bundles / "net", "--data", voc, "--max-drop", "1")
    assert unnamed.exit_code == 2 and "puts out no class scores; give --task detection, segm" in unnamed.stderr
    assert "evaluating" not in unnamed.stderr


def test_a_score_that_just_meets_its_goal(run: Run, bundles: Path, tmp_path: Path) -> None:
    """One of 50 small boxes is lost: in floating point 1 - 0.98 is a little more than 0.02."""
    moved = bundle(pixel_detector(1.0), (3, ROWS, COLUMNS), RAW, ("cat", "dog"), tmp_path / "moved", "detection")
    (tmp_path / "images").mkdir()
    for number in range(50):
        box = ((2.0, 5.0, 4.0, 7.0), 0.6, 0) if number == 0 else ((0.0, 0.0, 5.0, 11.0), 0.9, 0)
        Image.fromarray(pixels(box)).save(tmp_path / "images" / f"{number:02}.png")
    common = ["evaluate", moved, "--reference", bundles / "net", "--data", "images"]
    for goal, code in ((2, 0), (1.99, 4)):
        done = run(*common, "--max-drop", goal)
        assert done.exit_code == code, done.stdout


def test_evaluate_takes_splits_and_cocos_files(run: Run, bundles: Path, voc: Path, tmp_path: Path) -> None:
    (voc / "ImageSets" / "Main").mkdir(parents=True)
    (voc / "ImageSets" / "Main" / "val.txt").write_text("b\n")
    done = run("evaluate", bundles / "net", "--task", "detection", "--data", f"{voc}:val", "--json")
    assert json.loads(done.stdout)["images"] == 1
    requires("pycocotools")
    path = coco_file(tmp_path / "coco", coco_document({"a.png": ((ROWS, COLUMNS), OBJECTS)}, {"dog": 9, "cat": 4}))
    Image.fromarray(pixels(CAT, DOG)).save(tmp_path / "coco" / "val" / "a.png")
    done = run("evaluate", bundles / "net", "--task", "detection", "--data", path, "--json")
    assert done.exit_code == 0, done.stderr
    scores = json.loads(done.stdout)["scores"]["network"]
    assert [(each["name"], each["value"]) for each in scores] == [
        ("COCO AP", pytest.approx(1.0)), ("COCO AP50", pytest.approx(1.0)),
    ]  # fmt: skip


def test_evaluate_judges_maps(run: Run, engine: None, tmp_path: Path) -> None:
    from quantkit.data.preprocess import Preprocess

    net = bundle(
        colour_segmenter(8), (3, 8, 8), Preprocess(fit="stretch"), ("nothing", "red", "green"), tmp_path / "net"
    )
    image, mask = np.zeros((8, 8, 3), np.uint8), np.zeros((8, 8), np.uint8)
    image[:, :4, 0], mask[:, :2] = 255, 1
    for folder, array in (("JPEGImages", image), ("SegmentationClass", mask)):
        (tmp_path / "voc" / folder).mkdir(parents=True)
        Image.fromarray(array).save(tmp_path / "voc" / folder / "a.png")
    done = run("evaluate", net, "--task", "segmentation", "--data", tmp_path / "voc", "--json")
    assert done.exit_code == 0, done.stderr
    scores = {each["name"]: each["value"] for each in json.loads(done.stdout)["scores"]["network"]}
    assert scores == {"mIoU": pytest.approx((2 / 4 + 4 / 6) / 2), "pixel accuracy": 0.75}
    json_file = tmp_path / "x.json"
    json_file.write_text("{}")
    done = run("evaluate", net, "--task", "segmentation", "--data", json_file)
    assert done.exit_code == 2 and "holds boxes, not the class of every pixel" in done.stderr


@pytest.mark.long
def test_a_bundle_says_its_task(run: Run, engine: None, voc: Path, tmp_path: Path) -> None:
    net = bundle(pixel_detector(), (3, ROWS, COLUMNS), RAW, ("cat", "dog"), tmp_path / "net", "detection")
    common = ["evaluate", net, "--reference", net]
    done = run(*common, "--data", voc, "--max-drop", "0.5", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["scores"]["network"][0]["value"] == 1.0
    # The outputs as they are.
    done = run(*common, "--data", voc / "JPEGImages", "--task", "classification", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["agreement"]["cosine"] == pytest.approx(1.0)
    assert run(*common, "--data", voc, "--task", "classification", "--max-drop", "1").exit_code == 2
    assert json.loads(run("predict", net, voc / "JPEGImages", "--json").stdout)["task"] == "detection"


def test_poses(run: Run, engine: None, tmp_path: Path) -> None:
    from quantkit.data.preprocess import Preprocess

    b = Builder()
    # The channels themselves are the heatmaps of three joints.
    net = bundle(b.graph(b.relu("maps", DATA)), (3, 16, 12), Preprocess(fit="stretch"), (), tmp_path / "net", "pose")
    image, joints = np.zeros((16, 12, 3), np.uint8), [(6, 8), (3, 12), (9, 2)]
    for channel, (x, y) in enumerate(joints):
        image[y, x, channel] = 255
    person = {
        "id": 1, "image_id": 1, "category_id": 1, "bbox": [1.2, 1.6, 9.6, 12.8], "area": 100, "iscrowd": 0,
        "keypoints": [number for x, y in joints[:2] for number in (x, y, 2)] + [0, 0, 2],
    }  # fmt: skip
    listed = [{"id": 1, "file_name": "a.png", "height": 16, "width": 12}]
    path = coco_file(tmp_path, {"images": listed, "categories": [{"id": 1, "name": "person"}], "annotations": [person]})
    Image.fromarray(image).save(tmp_path / "val" / "a.png")
    done = run("predict", net, tmp_path / "val", "--draw", "out", "--json")
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["task"] == "pose"
    assert [each["point"] for each in result["images"][0]["values"]] == [[x, y] for x, y in joints]
    assert "1.000 joint 0 at 6 8" in run("predict", net, tmp_path / "val").stdout
    done = run("evaluate", net, "--data", path, "--reference", net, "--max-drop", "1", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    scores = {each["name"]: each["value"] for each in document["scores"]["network"]}
    # Two of three joints are where they should be: similar by two thirds, enough at 4 of 10 thresholds.
    assert scores == {"OKS AP": pytest.approx(0.4), "mean OKS": pytest.approx(2 / 3, abs=1e-3)}
    assert document["agreement"]["network"][0]["value"] == 1.0
    alone = run("evaluate", net, "--data", tmp_path / "val")
    assert alone.exit_code == 2 and "no annotations that pose could be judged by" in alone.stderr
