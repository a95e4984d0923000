from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from quantkit.backends.mxnet import support
from quantkit.backends.mxnet.execute import run
from quantkit.bundle import Bundle, read_bundle
from quantkit.data.prefetch import prefetched
from quantkit.data.preprocess import apply, input_pixels
from quantkit.deployment.classes import best_classes
from quantkit.deployment.loading import load
from quantkit.deployment.network import RunningNetwork
from quantkit.deployment.predictor import Predictor
from quantkit.deployment.runner import Turns
from quantkit.errors import DataError, EngineError, UserError
from quantkit.ir.graph import Graph, Node, Tensor


@pytest.fixture(scope="session")
def predictor(bundle: Bundle) -> Predictor:
    return Predictor(bundle)


@pytest.fixture(scope="session")
def photographs() -> list[np.ndarray]:
    """Pixels of 21 sizes."""
    random = np.random.default_rng(7)
    return [random.integers(0, 256, (33 + n, 60 - n, 3)).astype(np.uint8) for n in range(21)]


@pytest.fixture(scope="session")
def inputs(bundle: Bundle, photographs: list[np.ndarray]) -> np.ndarray:
    """The photographs as the network reads them."""
    return np.stack([apply(bundle.preprocess, image) for image in photographs])


@pytest.fixture(scope="session")
def expected(bundle: Bundle, inputs: np.ndarray) -> np.ndarray:
    """The network's outputs for the photographs, one at a time."""
    return np.concatenate([run(bundle.graph, {"data": one[None]})[0] for one in inputs])


def same(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max(initial=1))


def test_a_directory_is_no_bundle_yet(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"bundle is of type str; give a Bundle, or load its directory with quantkit.l"):
        Predictor(str(tmp_path))  # type: ignore[arg-type]


def test_one_image(predictor: Predictor, photographs: list, inputs: np.ndarray, expected: np.ndarray) -> None:
    same(predictor.predict(photographs[4]), expected[4:5])
    same(predictor.predict(inputs[4]), expected[4:5])


def test_a_predictor_is_shown_in_one_line(predictor: Predictor) -> None:
    assert repr(predictor) == "Predictor('digits_resnet20_v1', fp32, input 3x32x32, engine 'mxnet')"


def test_threads_with_predictors_of_their_own(bundle: Bundle, inputs: np.ndarray, expected: np.ndarray) -> None:
    """Unless the engine works for one at a time, this ends the process, or leaves its settings in the environment."""

    def bind_and_run(_: int) -> np.ndarray:
        return Predictor(bundle).predict(inputs[:2])

    before = dict(os.environ)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(bind_and_run, range(40)):
            np.testing.assert_allclose(found, expected[:2], rtol=1e-4, atol=1e-4)
    assert dict(os.environ) == before


@pytest.mark.parametrize("count", [0, 1, 2, 3, 15, 16, 17, 21])
def test_any_number_of_images(
    predictor: Predictor, photographs: list, inputs: np.ndarray, expected: np.ndarray, count: int
) -> None:
    for images in (photographs[:count], tuple(photographs[:count]), inputs[:count], iter(photographs[:count])):
        same(predictor.predict(images), expected[:count].reshape(count, 10))


def test_equal_pixels_in_one_array(predictor: Predictor, bundle: Bundle, photographs: list) -> None:
    pixels = np.stack([image[:33, :40] for image in photographs])
    alone = np.concatenate([run(bundle.graph, {"data": apply(bundle.preprocess, one)[None]})[0] for one in pixels])
    same(predictor.predict(pixels), alone)


def test_files_and_arrays_mixed(
    predictor: Predictor, photographs: list, inputs: np.ndarray, expected: np.ndarray, tmp_path: Path
) -> None:
    file = tmp_path / "image.png"
    Image.fromarray(photographs[0]).save(file)
    same(predictor.predict(file), expected[:1])
    same(predictor.predict(str(file)), expected[:1])
    same(predictor.predict([file, photographs[1], inputs[2]]), expected[:3])


def test_large_jpeg_files_may_be_decoded_at_a_fraction(
    directory: Path, predictor: Predictor, photographs: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = Image.fromarray(photographs[0])
    picture.resize((picture.width * 8, picture.height * 8)).save(tmp_path / "large.jpg", quality=95)
    picture.save(tmp_path / "small.png")
    files = [tmp_path / "large.jpg", tmp_path / "small.png"]
    sizes: list[int] = []

    def recorded(*given: Any) -> np.ndarray:
        sizes.append(len(given[1].pixels))
        return input_pixels(*given)

    monkeypatch.setattr("quantkit.deployment.inputs.input_pixels", recorded)
    whole, reduced = predictor.predict(files), load(directory, reduced_decoding=True).predict(files)
    assert min(sizes) == picture.height
    assert max(sizes) < 8 * picture.height
    assert not np.array_equal(reduced[0], whole[0])
    same(reduced[1], whole[1])
    np.testing.assert_allclose(reduced[0], whole[0], rtol=0, atol=0.1 * np.abs(whole[0]).max())


@pytest.mark.parametrize(("sides", "threads"), [((32, 32), False), ((64, 32), False), ((65, 32), True)])
def test_only_large_images_are_worth_threads(
    predictor: Predictor, sides: tuple[int, int], threads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = counted_workers(monkeypatch)
    predictor.predict(np.zeros((3, *sides, 3), np.uint8))
    assert [count > 0 for count in counts] == [threads]


def test_so_many_threads_read_as_are_asked_for(
    directory: Path, photographs: list, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = counted_workers(monkeypatch)
    # The first ones are not large enough for threads.
    same(load(directory, workers=3).predict(photographs[3:]), expected[3:])
    assert counts == [3]
    for wrong in (0, 257, 1.5, True):
        with pytest.raises(UserError, match=r"workers is "):
            load(directory, workers=wrong)  # type: ignore[arg-type]


def counted_workers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by the number of threads whenever images are read."""
    counts: list[int] = []

    def noted(function: Any, items: Any, workers: int, depth: int) -> Any:
        counts.append(workers)
        return prefetched(function, items, workers, depth)

    monkeypatch.setattr("quantkit.deployment.inputs.prefetched", noted)
    return counts


def test_a_stream_is_read_a_few_images_at_a_time(predictor: Predictor, inputs: np.ndarray) -> None:
    held: list[int] = []

    def stream() -> Any:
        for number in range(40):
            held.append(number)
            yield inputs[0]

    batches = predictor._inputs.batches(stream())
    assert len(next(batches)) == 16
    assert len(held) == 16


def test_threads_get_what_one_thread_gets(bundle: Bundle, photographs: list, expected: np.ndarray) -> None:
    fresh = Predictor(bundle)  # so that the threads also bind the batch sizes
    slices = [slice(start, start + size) for size in (1, 2, 3, 5, 8) for start in range(0, 16, size)]
    with ThreadPoolExecutor(8) as pool:
        for where, found in zip(slices, pool.map(lambda where: fresh.predict(photographs[where]), slices)):
            same(found, expected[where])


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((32, 32), np.uint8), r"uint8 of shape \(32, 32\)"),
        (np.zeros((1, 2, 3, 32, 32), np.float32), r"float32 of shape \(1, 2, 3, 32, 32\)"),
        (np.zeros((32, 32, 4), np.uint8), r"image 0 is uint8 of shape \(32, 32, 4\)"),
        (np.zeros((2, 3, 32, 32), np.uint8), r"image 0 is uint8 of shape \(3, 32, 32\)"),
        (np.zeros((2, 3, 32, 32), np.float64), r"image 0 is float64, not float32"),
        (np.zeros((2, 3, 32, 31), np.float32), r"image 0 has shape \(3, 32, 31\)"),
        (np.zeros((2, 32, 32, 3), np.float32), r"image 0 has shape \(32, 32, 3\)"),
        ([np.zeros((3, 32, 32), np.float32), np.zeros((3, 8, 8), np.float32)], r"image 1 has shape \(3, 8, 8\)"),
        ([np.zeros((3, 32, 32), np.float32), None], r"image 1 is a NoneType"),
        (3.5, r"float is not an array; give files, or arrays of uint8 pixels or float32 input"),
        ("no/such/file.png", r"cannot read image no/such/file.png"),
    ],
)
def test_what_is_no_image_is_named(predictor: Predictor, images: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        predictor.predict(images)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", [list, np.asarray])
def test_the_image_with_nan_is_named(
    predictor: Predictor, inputs: np.ndarray, value: float, form: Callable[[Any], Any]
) -> None:
    bad = inputs.copy()
    bad[18, 1, 5, 5] = value
    with pytest.raises(DataError, match="image 18 holds NaN or infinite values"):
        predictor.predict(form(bad))


def test_nan_in_the_output_is_an_error(bundle: Bundle, inputs: np.ndarray) -> None:
    broken = Predictor(bundle)

    def overflowing(batch: np.ndarray) -> list[np.ndarray]:
        output = np.zeros((len(batch), 10), np.float32)
        if len(batch) == 5:  # what remains after the first 16
            output[1, 3] = np.inf
        return [output]

    broken._runner = Turns(RunningNetwork("mxnet", overflowing))
    with pytest.raises(EngineError, match="computes NaN or infinite values for image 17"):
        broken.predict(inputs)


def test_pixels_need_a_known_preprocessing(bundle: Bundle, photographs: list, inputs: np.ndarray) -> None:
    bare = Predictor(replace(bundle, preprocess=None))
    with pytest.raises(DataError, match="image 0 holds uint8 pixels where preprocessed float32 is needed"):
        bare.predict(photographs[:2])
    assert bare.predict(inputs[:2]).shape == (2, 10)


def test_classify_ranks_by_softmax(predictor: Predictor, photographs: list, expected: np.ndarray) -> None:
    found = predictor.classify(photographs[:3], top=4)
    exact = np.exp(expected[:3].astype(np.float64))
    exact /= exact.sum(axis=1, keepdims=True)
    for scores, ranked in zip(exact, found):
        order = sorted(range(10), key=lambda index: -scores[index])[:4]
        assert [label for label, _ in ranked] == [str(index) for index in order]
        np.testing.assert_allclose([score for _, score in ranked], scores[order], rtol=1e-4)


def test_classes_of_a_stream_come_one_image_after_the_other(predictor: Predictor, photographs: list) -> None:
    read: list[int] = []

    def images() -> Any:
        for number in range(40):
            read.append(number)
            yield photographs[number % 21][:32, :32]

    found = predictor.classify_stream(images(), top=3)
    first = next(found)
    assert len(first) == 3 and len(read) < 40
    outputs = predictor.predict([photographs[number % 21][:32, :32] for number in range(40)])
    assert [first, *found] == best_classes(outputs, False, predictor.labels, 3)
    with pytest.raises(UserError, match="top is 0"):
        next(predictor.classify_stream(photographs[0], top=0))


def test_classify_calls_classes_by_label(bundle: Bundle, photographs: list) -> None:
    labels = tuple("abcdefghij")
    named = Predictor(replace(bundle, labels=labels)).classify(photographs[0], top=99)
    bare = Predictor(replace(bundle, labels=())).classify(photographs[0], top=99)
    assert [labels.index(label) for label, _ in named[0]] == [int(label) for label, _ in bare[0]]
    assert len(named[0]) == 10


def test_classify_takes_probabilities_as_they_are(bundle: Bundle, photographs: list, expected: np.ndarray) -> None:
    graph = bundle.graph
    softmax = Node("probabilities", "softmax", (graph.outputs[0],), {"axis": "-1"})
    (output,) = bundle.manifest.outputs
    manifest = replace(bundle.manifest, outputs=(replace(output, scores="softmax"),))
    probable = replace(bundle, manifest=manifest)
    probable.__dict__["graph"] = Graph((*graph.nodes, softmax), graph.inputs, (Tensor("probabilities"),), graph.params)
    (of_logits,), (of_scores,) = (Predictor(found).classify(photographs[0]) for found in (bundle, probable))
    assert [label for label, _ in of_scores] == [label for label, _ in of_logits]
    np.testing.assert_allclose([s for _, s in of_scores], [s for _, s in of_logits], rtol=1e-4)


def test_classify_of_nothing_and_of_no_classes(predictor: Predictor, photographs: list) -> None:
    assert predictor.classify([]) == []
    for top in (0, "3", 2.0):
        with pytest.raises(UserError, match=r"top is .*; give a whole number from 1 up, such as 5"):
            predictor.classify(photographs[0], top=top)  # type: ignore[arg-type]


def test_classify_refuses_what_is_no_class_scores(bundle: Bundle, photographs: list, expected: np.ndarray) -> None:
    predictor = Predictor(replace(bundle, manifest=replace(bundle.manifest, class_scores=False)))
    said = (
        r"'digits_resnet20_v1' puts out no class scores but 'digits_dense0_fwd' of shape \(10,\).*call predict\(\), or"
    )
    for images in (photographs[0], []):
        with pytest.raises(UserError, match=said):
            predictor.classify(images)
    same(predictor.predict(photographs[0]), expected[:1])


def test_random_weights_must_be_asked_for_by_name(bundle: Bundle) -> None:
    manifest = replace(bundle.manifest, source=replace(bundle.manifest.source, weights="random"))
    random = replace(bundle, manifest=manifest)
    with pytest.raises(UserError, match=r"has random weights.*allow_random_weights=True"):
        Predictor(random)
    assert Predictor(random, allow_random_weights=True).manifest.source.weights == "random"


def test_int8_predicts_what_the_bundle_stored(digits_int8: Any, tmp_path: Path) -> None:
    bundle = read_bundle(digits_int8.save(tmp_path / "int8"))
    np.testing.assert_array_equal(Predictor(bundle).predict(bundle.sample.input), bundle.sample.outputs[0])


def test_an_engine_that_cannot_run_int8_says_so(
    digits_int8: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = read_bundle(digits_int8.save(tmp_path / "int8"))
    monkeypatch.setattr("quantkit.backends.mxnet.execute.int8_obstacle", lambda: "this processor cannot")
    assert support.int8_obstacle() is None
    with pytest.raises(EngineError, match="this processor cannot"):
        Predictor(bundle)


def test_predicting_is_lean(bundle: Bundle) -> None:
    program = (
        "import json, sys, quantkit, numpy\n"
        f"quantkit.load({str(bundle.directory)!r}).predict(numpy.zeros((2, 3, 32, 32), numpy.float32))\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    # What mxnet itself loads is its own affair.
    assert set(json.loads(done.stdout)) & {"mxnet", "gluoncv", "skimage", "click", "rich"} == {"mxnet"}
