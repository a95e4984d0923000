"""Predictors of detectors and of networks that segment: predictions in the images' own pixels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from quantkit.data.preprocess import Preprocess
from quantkit.deployment.loading import load
from quantkit.deployment.network import RunningNetwork
from quantkit.deployment.predictions import image_files, kind_of, predictions
from quantkit.deployment.predictor import Predictor
from quantkit.deployment.runner import Turns
from quantkit.errors import DataError, EngineError, UserError
from quantkit.fusion.fused_model import FusedModel
from quantkit.tasks.drawing import with_boxes
from tests.tasks.networks import COLUMNS, RAW, ROWS, box_detector, bundle, colour_segmenter, pixel_detector, pixels

CAT, DOG = ((0.0, 0.0, 3.0, 6.0), 0.9, 0), ((2.0, 5.0, 6.0, 11.0), 0.25, 1)


@pytest.fixture(scope="module")
def detector(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    folder = tmp_path_factory.mktemp("detector") / "net"
    return load(bundle(pixel_detector(), (3, ROWS, COLUMNS), RAW, ("cat", "dog"), folder))


@pytest.fixture(scope="module")
def segmenter(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    folder = tmp_path_factory.mktemp("segmenter") / "net"
    fit = Preprocess(fit="letterbox")
    return load(bundle(colour_segmenter(24), (3, 24, 24), fit, ("nothing", "red", "green"), folder))


@pytest.fixture(scope="module")
def classifier(digits_fused: FusedModel, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    from quantkit.bundle import write_float_bundle

    return load(write_float_bundle(digits_fused, tmp_path_factory.mktemp("classifier") / "net"))


def coloured(height: int = 8, width: int = 12) -> np.ndarray:
    """Red on the left third, green on the right."""
    image = np.zeros((height, width, 3), np.uint8)
    image[:, : width // 3, 0] = image[:, -width // 3 :, 1] = 255
    return image


def test_overlaps_that_the_network_leaves_are_bounded_as_asked(engine: None, tmp_path: Path) -> None:
    open_ended = load(bundle(box_detector(), (3, ROWS, COLUMNS), RAW, ("face",), tmp_path / "net"))
    # The second shares 0.4 of their union with the first.
    image = pixels(((0.0, 0.0, 5.0, 5.0), 0.9, 0), ((0.0, 0.0, 5.0, 2.0), 0.8, 0))
    for bound, number in ((None, 2), (0.41, 2), (0.39, 1), (0, 1), (1, 2)):
        assert len(open_ended.detect(image, bound)[0]) == number
    path = tmp_path / "a.png"
    Image.fromarray(image).save(path)
    for bound, number in ((None, 2), (0.39, 1)):
        (seen,) = predictions(open_ended, [path], "detection", 0.5, 5, False, bound)
        assert len(seen.values) == number


def test_maps_are_those_of_whole_images(engine: None, tmp_path: Path) -> None:
    fit = Preprocess(fit="letterbox")
    folder = bundle(colour_segmenter(24), (3, 24, 24), fit, ("nothing", "red", "green"), tmp_path / "net")
    Image.fromarray(coloured(160, 240)).save(tmp_path / "large.jpg", quality=95)
    (found,) = load(folder, reduced_decoding=True).segment([tmp_path / "large.jpg"])
    assert found.shape == (160, 240)


@pytest.mark.parametrize("bound", [-0.1, 1.1, float("nan"), "0.5", True])
def test_what_is_no_overlap_is_refused(detector: Predictor, bound: Any) -> None:
    with pytest.raises(UserError, match="give an intersection over union from 0 to 1"):
        detector.detect(pixels(CAT), bound)


def test_networks_that_suppress_overlaps_themselves_take_no_bound(detector: Predictor, segmenter: Predictor) -> None:
    with pytest.raises(UserError, match="does not leave the suppression of overlapping boxes to its caller"):
        detector.detect(pixels(CAT), 0.5)
    with pytest.raises(UserError, match="detects nothing; leave out max_overlap"):
        list(predictions(segmenter, [Path("a.png")], "segmentation", 0.5, 5, False, 0.5))


def test_detections_of_several_images_are_each_their_own(detector: Predictor) -> None:
    images = [pixels(CAT), pixels(), pixels(DOG, CAT)] * 7
    seen = detector.detect(images)
    assert [len(each) for each in seen] == [1, 0, 2] * 7
    both = seen[2]
    assert (both.labels.tolist(), detector.labels) == ([0, 1], ("cat", "dog"))
    np.testing.assert_allclose(both.scores, [0.9, 0.25], rtol=1e-6)
    np.testing.assert_allclose(both.boxes, [CAT[0], DOG[0]], atol=1e-5)
    np.testing.assert_allclose(detector.detect(pixels(CAT))[0].boxes, [CAT[0]], atol=1e-5)
    assert detector.detect([]) == []


def test_detections_and_pictures_have_edges(detector: Predictor, tmp_path: Path) -> None:
    """Whatever corners the network puts out."""
    folder = tmp_path / "net"
    graph, shape = pixel_detector(), (3, ROWS, COLUMNS)
    other = load(bundle(graph, shape, RAW, ("cat", "dog"), folder, "detection", "pixels"))
    ended = (0.0, 0.0, 2.0, 5.0), *CAT[1:]
    np.testing.assert_allclose(other.detect(pixels(ended))[0].boxes, [CAT[0]], atol=1e-5)
    np.testing.assert_allclose(
        other.detect(pixels(ended).transpose(2, 0, 1).astype(np.float32))[0].boxes, [CAT[0]], atol=1e-5
    )
    files = image_files([saved(tmp_path / "images", it=pixels(ended))])
    (drawn,) = predictions(other, files, "detection", 0.2, 5, True)
    assert drawn.values[0]["box"] == pytest.approx(CAT[0], abs=1e-5) and drawn.picture is not None
    blank = np.zeros_like(pixels(ended))
    Image.fromarray(blank).save(files[0])
    edges = detector.detect(pixels(CAT))[0]
    frame = with_boxes(blank, edges, ("cat", "dog"))
    assert (with_boxes(blank, other.detect(pixels(ended))[0], ("cat", "dog")) == frame).all()


def test_what_is_preprocessed_has_its_own_pixels(detector: Predictor, segmenter: Predictor) -> None:
    ready = pixels(CAT).transpose(2, 0, 1).astype(np.float32)
    np.testing.assert_allclose(detector.detect(ready)[0].boxes, [CAT[0]], atol=1e-5)
    (classes,) = segmenter.segment(np.ones((1, 3, 24, 24), np.float32))
    assert classes.shape == (24, 24)


def test_each_pixel_of_an_image_has_its_class(segmenter: Predictor) -> None:
    first, second = segmenter.segment([coloured(), coloured(24, 12)])
    assert first.shape == (8, 12) and second.shape == (24, 12)
    for classes in (first, second):
        assert (classes[:, :4] == 1).all() and (classes[:, 4:8] == 0).all() and (classes[:, 8:] == 2).all()


@pytest.mark.parametrize(("read", "bad"), [("detect", 0), ("detect", 2), ("segment", 0), ("pose", 0)])
def test_the_image_with_nan_in_its_outputs_is_named(
    detector: Predictor, segmenter: Predictor, monkeypatch: pytest.MonkeyPatch, read: str, bad: int
) -> None:
    predictor = detector if read == "detect" else segmenter
    whole = predictor._runner

    def overflowing(batch: np.ndarray) -> list[np.ndarray]:
        outputs = [output.copy() for output in next(whole.outputs([batch]))]
        if len(batch) == 2:  # what remains after the first 16
            outputs[bad][1].flat[-1] = np.nan
        return outputs

    monkeypatch.setattr(predictor, "_runner", Turns(RunningNetwork(predictor.engine, overflowing)))
    image = pixels() if read == "detect" else coloured()
    assert len(getattr(predictor, read)([image] * 16)) == 16
    with pytest.raises(EngineError, match="computes NaN or infinite values for image 17"):
        getattr(predictor, read)([image] * 18)


def test_outputs_that_do_not_fit_are_refused(detector: Predictor, segmenter: Predictor, classifier: Predictor) -> None:
    with pytest.raises(UserError, match="segmentation needs outputs that are"):
        detector.segment(pixels())
    with pytest.raises(UserError, match="detection needs outputs that are"):
        segmenter.detect(coloured())
    with pytest.raises(UserError, match="detection needs outputs that are"):
        classifier.detect(coloured())
    assert [kind_of(each) for each in (detector, segmenter, classifier)] == [
        "detection", "segmentation", "classification",
    ]  # fmt: skip
    assert kind_of(classifier, "detection") == "detection"
    said = SimpleNamespace(manifest=replace(detector.manifest, task="segmentation"), input_shape=detector.input_shape)
    assert kind_of(said) == "segmentation"  # type: ignore[arg-type]


def test_networks_that_read_no_images_have_no_files() -> None:
    manifest = SimpleNamespace(input=SimpleNamespace(several=None))
    reader = SimpleNamespace(name="lm", input_shape=(35,), manifest=manifest)
    with pytest.raises(UserError, match=r"lm reads inputs of shape \(35,\), not images; call Predictor\.predict"):
        kind_of(reader, "classification")  # type: ignore[arg-type]


def test_bundles_keep_the_names_of_their_classes(segmenter: Predictor, detector: Predictor) -> None:
    assert (segmenter.labels, detector.labels) == (("nothing", "red", "green"), ("cat", "dog"))


def saved(folder: Path, **images: np.ndarray) -> Path:
    folder.mkdir()
    for name, image in images.items():
        Image.fromarray(image).save(folder / f"{name}.png")
    return folder


def test_files_have_values_and_pictures(detector: Predictor, segmenter: Predictor, tmp_path: Path) -> None:
    files = image_files([saved(tmp_path / "a", one=pixels(DOG, CAT), two=pixels())])
    first, second = predictions(detector, files, "detection", 0.2, 5, True)
    assert [each["class"] for each in first.values] == ["cat", "dog"] and second.values == []
    assert first.values[0]["score"] == pytest.approx(0.9) and first.values[0]["box"] == pytest.approx(CAT[0], abs=1e-5)
    assert first.picture is not None and second.picture is not None
    assert (first.picture != pixels(DOG, CAT)).any() and (second.picture == pixels()).all()
    (confident, _) = predictions(detector, files, "detection", 0.5, 5, False)
    assert [each["class"] for each in confident.values] == ["cat"] and confident.picture is None
    (painted,) = predictions(segmenter, image_files([saved(tmp_path / "b", it=coloured())]), "segmentation", 0, 2, True)
    assert painted.values == [{"class": "nothing", "share": 1 / 3}, {"class": "red", "share": 1 / 3}]
    assert painted.picture is not None and painted.picture.shape == (8, 12, 3)


def test_shares_are_of_the_whole_image(engine: None, tmp_path: Path) -> None:
    crop = bundle(colour_segmenter(8), (3, 8, 8), Preprocess(crop=8), ("nothing", "red", "green"), tmp_path / "net")
    image = np.zeros((8, 16, 3), np.uint8)
    image[:, 8:, 0] = 255
    (seen,) = predictions(load(crop), image_files([saved(tmp_path / "a", it=image)]), "segmentation", 0, 5, False)
    assert seen.values == [{"class": "nothing", "share": 1 / 4}, {"class": "red", "share": 1 / 4}]


def test_classes_are_named_and_not_drawn(classifier: Predictor, tmp_path: Path) -> None:
    files = [saved(tmp_path / "a", one=np.zeros((32, 32, 3), np.uint8)) / "one.png"]
    (only,) = predictions(classifier, files, "classification", 0.5, 3, False)
    assert [(each["class"], each["score"]) for each in only.values] == classifier.classify(files, 3)[0]
    with pytest.raises(UserError, match="nothing to draw; leave --draw out"):
        list(predictions(classifier, files, "classification", 0.5, 3, True))


def test_files_come_from_folders_by_name(tmp_path: Path) -> None:
    folder = saved(tmp_path / "a", b=pixels(), a=pixels())
    (folder / "notes.txt").write_text("not an image")
    (folder / "._a.png").write_bytes(b"hidden")
    assert [file.name for file in image_files([folder / "b.png", folder])] == ["b.png", "a.png", "b.png"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty holds no images"):
        image_files([tmp_path / "empty"])
    with pytest.raises(DataError, match=r"there is no image .*c\.png"):
        image_files([folder / "c.png"])
