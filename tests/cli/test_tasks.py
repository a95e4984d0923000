"""Tasks from the outside: annotations that cannot be used, and networks that are for something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import pytest
from PIL import Image

from tests.cli.conftest import Run
from tests.data.annotations import Object, annotation, coco_document, coco_file, voc_folder
from tests.requirements import requires
from tests.tasks.networks import COLUMNS, RAW, ROWS, bundle, pixel_detector, pixels

SIZE = (ROWS, COLUMNS)
CAT: Object = ("cat", (0.0, 0.0, 3.0, 6.0), 0)


@pytest.fixture(scope="module")
def net(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles")
    return bundle(pixel_detector(), (3, ROWS, COLUMNS), RAW, ("cat", "dog"), folder / "net", "detection")


def beyond(root: Path) -> None:
    (root / "Annotations" / "a.xml").write_text(annotation(SIZE, [("cat", (0, 0, 3, ROWS + 2), 0)]))


def unknown(root: Path) -> None:
    (root / "Annotations" / "a.xml").write_text(annotation(SIZE, [("cow", CAT[1], 0)]))


def empty(root: Path) -> None:
    (root / "Annotations" / "a.xml").write_text("")


def nothing(root: Path) -> None:
    (root / "Annotations" / "a.xml").write_text(annotation(SIZE, []))


def absent(root: Path) -> None:
    (root / "JPEGImages" / "a.png").unlink()


def other_size(root: Path) -> None:
    Image.new("RGB", (COLUMNS + 1, ROWS)).save(root / "JPEGImages" / "a.png")


def no_image(root: Path) -> None:
    (root / "JPEGImages" / "a.png").write_bytes(b"\x89PNG")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (beyond, "reaches out of the image of 6x12 pixels; correct it"),
        (unknown, "an object of class 'cow', which is none of the 2"),
        (empty, "a.xml is not an annotation of VOC"),
        (nothing, "has an object"),
        (absent, "image 'a' does not exist in"),
        (other_size, "image a has 7x12 pixels as it is shown, its annotation says 6x12"),
        (no_image, "a.png"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_annotations_that_cannot_be_used(
    run: Run, net: Path, tmp_path: Path, damage: Callable[[Path], None], words: str
) -> None:
    root = voc_folder(tmp_path / "voc", {"a": (SIZE, [CAT])})
    damage(root)
    done = run("evaluate", net, "--data", root)
    assert done.exit_code == 2, done.stdout
    assert words in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["annotations"][0].update(bbox=[0, 0, 99, 3]), "reaches out of the image"),
        (lambda d: d["annotations"].clear(), "lists no object"),
        (lambda d: d["images"][0].update(file_name="gone.png"), "'gone.png' of"),
        (lambda d: d["categories"][0].update(name="cow"), "an object of class 'cow'"),
        (lambda d: d.pop("images"), "is damaged at images"),
    ],
)
def test_files_of_coco_that_cannot_be_used(
    run: Run, net: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    requires("pycocotools")
    document = coco_document({"a.png": (SIZE, [CAT])}, {"cat": 1})
    path = coco_file(tmp_path, document)
    change(document)
    path.write_text(json.dumps(document))
    done = run("evaluate", net, "--data", path)
    assert done.exit_code == 2, done.stdout
    assert words in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("flag", [0, 1])
def test_difficult_objects_need_not_be_seen(run: Run, net: Path, tmp_path: Path, flag: int) -> None:
    root = voc_folder(tmp_path / "voc", {"a": (SIZE, [CAT, ("cat", (2.0, 5.0, 6.0, 11.0), flag)])})
    Image.fromarray(pixels((CAT[1], 0.9, 0))).save(root / "JPEGImages" / "a.png")
    done = run("evaluate", net, "--data", root, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["scores"]["network"][0]["value"] == (1.0 if flag else 0.5)


@pytest.mark.parametrize("task", ["detection", "segmentation", "pose"])
def test_a_network_for_something_else_is_refused_before_work(
    run: Run, int8_engine: None, tmp_path: Path, task: str
) -> None:
    done = run("quantize", "digits_resnet20_v1", "--task", task, "--calib-data", "digits:train", "--out", "b")
    assert done.exit_code == 2, done.stdout
    assert f"{task} needs outputs that are" in done.stderr.splitlines()[-1]
    assert "calibrating" not in done.stderr and not (tmp_path / "b").exists()
    done = run("quantize", "digits_ssd", "--task", "detection", "--classes", "--out", "b")
    assert done.exit_code == 2 and "networks for detection put out no class scores" in done.stderr


@pytest.mark.parametrize(("task", "judged"), [("embedding", False), ("action", True), (None, True)])
def test_checkpoints_say_any_task_and_their_bundles_keep_it(
    run: Run, engine: None, tmp_path: Path, task: Optional[str], judged: bool
) -> None:
    requires("onnx")
    said = [] if task is None else ["--task", task]
    assert run("export", "digits_resnet20_v1", "--out", "net.onnx").exit_code == 0
    done = run("fuse", "net.onnx", *said, "--out", "net", "--no-latency")
    assert done.exit_code == 0, done.stderr
    assert json.loads((tmp_path / "net" / "manifest.json").read_text()).get("task") == task
    for network, options in (("net", []), ("net.onnx", said)):
        common = ["evaluate", network, *options, "--data", "digits:test", "--num-samples", 20, "--json"]
        done = run(*common, "--reference", "digits_resnet20_v1")
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["class_scores"]["yes"] == judged


def test_networks_without_class_scores_have_nothing_to_lose(run: Run, engine: None) -> None:
    common = ["evaluate", "digits_resnet20_v1", "--task", "embedding", "--data", "digits:test", "--num-samples", 20]
    done = run(*common, "--reference", "digits_resnet20_v1", "--max-drop", 1)
    assert done.exit_code == 2, done.stdout
    assert "networks for embedding are judged by their values alone; leave --max-drop out" in done.stderr
    assert "evaluating" not in done.stderr
    done = run(*common, "--classes")
    assert done.exit_code == 2, done.stdout
    assert "networks for embedding put out no class scores; leave out either the task, or --classes" in done.stderr


def test_goals_are_held_against_the_annotations_before_work(run: Run, int8_engine: None, tmp_path: Path) -> None:
    root = voc_folder(tmp_path / "voc", {"a": (SIZE, [("cow", CAT[1], 0)])})
    goal = ["--calib-data", "scenes:train", "--max-drop", 1, "--eval-data", root, "--out", "b"]
    done = run("quantize", "digits_ssd", *goal)
    assert done.exit_code == 2, done.stdout
    assert "an object of class 'cow'" in done.stderr.splitlines()[-1] and "calibrating" not in done.stderr


def test_the_corners_of_boxes_are_said_and_kept(run: Run, engine: None, tmp_path: Path) -> None:
    requires("onnx")
    import onnx

    from quantkit.bundle.export import export_onnx
    from quantkit.models.load import load_model

    done = run("export", "digits_fcn", "--box-corners", "pixels", "--out", "fcn.onnx")
    assert done.exit_code == 2 and "digits_fcn is for segmentation, which has no boxes" in done.stderr
    assert run("export", "digits_ssd", "--box-corners", "pixels", "--out", "ssd.onnx").exit_code == 0
    assert ("box_corners", "pixels") in [(each.key, each.value) for each in onnx.load("ssd.onnx").metadata_props]
    model = replace(load_model("digits_resnet20_v1"), task=None, box_corners="pixels")
    export_onnx(model, tmp_path / "net.onnx")
    for said, kept in (((), True), (("--box-corners", "edges"), False)):
        done = run("fuse", "net.onnx", "--out", "net", "--no-latency", "--force", *said)
        assert done.exit_code == 0, done.stderr
        assert ('box_corners = "pixels"' in (tmp_path / "net" / "card.toml").read_text()) == kept


def test_onnx_files_and_fused_bundles_keep_the_task(run: Run, engine: None, tmp_path: Path) -> None:
    requires("onnx")
    assert run("export", "digits_fcn", "--out", "fcn.onnx").exit_code == 0
    done = run("fuse", "fcn.onnx", "--out", "fcn", "--no-latency")
    assert done.exit_code == 0, done.stderr
    assert json.loads((tmp_path / "fcn" / "manifest.json").read_text())["task"] == "segmentation"
    done = run("fuse", "fcn.onnx", "--out", "plain", "--no-latency", "--task", "classification")
    assert done.exit_code == 0, done.stderr
    assert "task" not in json.loads((tmp_path / "plain" / "manifest.json").read_text())
