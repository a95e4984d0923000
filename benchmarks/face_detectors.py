"""Detectors of faces in INT8 beside FP32, on photographs that ship with packages.

    python benchmarks/face_detectors.py version-slim-320.onnx --out benchmarks/results/face-detectors

The files are those of https://github.com/Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB (MIT), in its folder
models/onnx. They are calibrated with 32 of the default samples, without those that show a face. Images are 200 windows
of two portraits, scikit-image's astronaut and matplotlib's grace_hopper: half of them single, half four in one image,
so that faces are smaller. These are two faces, so the figures say how alike forms are, not how good. Faces are what the
file detects in ONNX Runtime with a score of one half or more. Found are those that a form of the network detects with
such a score and an overlap of at least one half; false are its further detections with such a score that overlap none
of the file's, of any score. Agreement is mean average precision with the faces as the truth. face-detectors.jpg
beside OUT shows what the first file detects in FP32 in ONNX Runtime, above INT8 in MXNet. Needs the extras onnxruntime
and openvino.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Optional

import numpy as np
from command_line import Document, rows_page, run, table, write_rows
from PIL import Image
from task_accuracy import run_all

import quantkit as qk
from quantkit.data.builtin import photographs
from quantkit.data.placement import placement
from quantkit.data.preprocess import Preprocess
from quantkit.deployment.inputs import InputReader
from quantkit.errors import QuantkitError
from quantkit.evaluation.measure import score
from quantkit.files.files import writing
from quantkit.quantization.quantized_graph import has_weights
from quantkit.tasks.box_agreement import box_agreement, found_again
from quantkit.tasks.detection import CONFIDENT, Detection
from quantkit.tasks.detections import Detections, above
from quantkit.tasks.drawing import with_boxes

ENGINES = {"mxnet": "MXNet", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
_PREPROCESS = Preprocess(mean=(127.0,) * 3, std=(128.0,) * 3, scale=1.0, fit="stretch")
_CLASSES = ("face",)
_CALIBRATION, _MOST_CROPS = 32, 40
_WINDOWS = 200
_SHOWN, _HEIGHT, _PICTURE = 4, 360, "face-detectors.jpg"

# Where the face is in each portrait: left, top, right, bottom.
_FACES = {"astronaut": (170, 60, 280, 190), "grace_hopper": (165, 90, 335, 290)}

COLUMNS = (
    "file", "form", "layers in INT8", "images", "faces", "found", "false", "agreement, %", "mean overlap",
    "largest deviation of a score",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One form of a file's network; ``agreement`` is from 0 to 1."""

    file: str
    form: str
    layers: str
    images: int
    faces: int
    found: int
    false: int
    agreement: float
    overlap: float
    scores: float


def main() -> None:
    """Measure the files named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write OUT.md, OUT.json, and face-detectors.jpg beside them")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    images = windows()
    rows: list[Row] = []
    print("\n".join(table(COLUMNS)), flush=True)
    for file in options.files:
        for row in _measured(file, images, None if rows else options.out):
            rows.append(row)
            print(_line(row), flush=True)
    if options.out is not None:
        names = " ".join(file.name for file in options.files)
        write_rows(options.out, f"python benchmarks/face_detectors.py {names}", rows, page)


def windows() -> list[np.ndarray]:
    """The portraits, and windows of them: uint8 (height, width, 3), of any size."""
    random = np.random.default_rng(0)
    portraits = _portraits()

    def window() -> np.ndarray:
        name = list(portraits)[int(random.integers(len(portraits)))]
        part = _around(random, portraits[name], _FACES[name])
        return part[:, ::-1] if random.random() < 0.5 else part

    found = [*portraits.values()]
    while len(found) < _WINDOWS:
        found += [window(), _four([window() for _ in range(4)])]
    return [np.ascontiguousarray(each) for each in found[:_WINDOWS]]


def _portraits() -> dict[str, np.ndarray]:
    import matplotlib
    import skimage

    files = {
        "astronaut": Path(skimage.__file__).parent / "data" / "astronaut.png",
        "grace_hopper": Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg",
    }
    return {name: np.array(Image.open(file).convert("RGB")) for name, file in files.items()}


def _around(random: np.random.Generator, image: np.ndarray, face: tuple[int, int, int, int]) -> np.ndarray:
    """A window at random that has the face in it."""
    height, width = image.shape[:2]
    left, top = random.integers(0, face[0] + 1), random.integers(0, face[1] + 1)
    right, bottom = random.integers(face[2], width + 1), random.integers(face[3], height + 1)
    return image[top:bottom, left:right]


def _four(images: Sequence[np.ndarray]) -> np.ndarray:
    """Four images of 320 x 240 pixels in two rows."""
    scaled = [np.array(Image.fromarray(each).resize((320, 240))) for each in images]
    return np.concatenate([np.concatenate(scaled[:2], axis=1), np.concatenate(scaled[2:], axis=1)])


def _measured(file: Path, images: Sequence[np.ndarray], picture: Optional[Path]) -> Iterator[Row]:
    """Every form of a file's network; with ``picture``, two of them are drawn there."""
    model = qk.load_model(file, preprocess=_PREPROCESS, task="detection")
    quantized = qk.quantize(model, _inputs(model, _calibration()))
    weighted = sum(map(has_weights, quantized.network.graph.nodes))
    layers = f"{len(quantized.network.int8_layers)} of {weighted}"
    data = _inputs(model, images)
    exact = _decoded(model, images, _in_onnxruntime(file, data))
    forms = {"FP32 in MXNet": (f"0 of {weighted}", _decoded(model, images, run_all(model.graph, data)))}
    with tempfile.TemporaryDirectory() as folder:
        bundle = quantized.save(Path(folder) / "int8", formats=("mxnet", "onnx"))
        for engine, name in ENGINES.items():
            forms[f"INT8 in {name}"] = layers, qk.load(bundle, engine=engine).detect(images)
    if picture is not None:
        _draw(picture, images, (exact, forms["INT8 in MXNet"][1]))
    for form, (count, seen) in forms.items():
        yield _row(file.stem, form, count, images, exact, seen)


def _calibration() -> list[np.ndarray]:
    """Default samples without a face: uint8, of different sizes."""
    crops = (each for each in photographs().read(range(_MOST_CROPS)) if "astronaut" not in each.name)
    return [each.image for each in islice(crops, _CALIBRATION)]


def _inputs(model: qk.Model, images: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(list(InputReader(model.input_shape, model.preparation).batches(images)))


def _in_onnxruntime(file: Path, data: np.ndarray) -> list[np.ndarray]:
    """The file's own outputs; it is made for one image at a time."""
    import onnxruntime

    # It warns of every weight that is among the inputs, as older exporters have it.
    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (name,) = (each.name for each in session.get_inputs())
    runs = [session.run(None, {name: each[np.newaxis]}) for each in data]
    return [np.concatenate(each) for each in zip(*runs)]


def _decoded(model: qk.Model, images: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> list[Detections]:
    """What is detected in each image, in its own pixels."""
    size = (model.input_shape[1], model.input_shape[2])
    task = Detection("all boxes", size, _CLASSES, len(_CLASSES))
    placed = (placement(model.preprocess, (each.shape[0], each.shape[1]), size) for each in images)
    return [task.in_image(seen, where) for seen, where in zip(task.decode(outputs), placed)]


def _row(
    file: str,
    form: str,
    layers: str,
    images: Sequence[np.ndarray],
    exact: Sequence[Detections],
    seen: Sequence[Detections],
) -> Row:
    sure = [above(each, CONFIDENT) for each in exact]
    also_sure = [above(each, CONFIDENT) for each in seen]
    found = box_agreement([found_again(wanted, each) for wanted, each in zip(sure, also_sure)])
    back = box_agreement([found_again(each, wanted) for wanted, each in zip(exact, also_sure)])
    if found is None or found.overlap is None or found.scores is None:
        raise QuantkitError(f"{file} detects no face, or none of them as {form}")
    false = 0 if back is None else back.detections - back.found
    task = Detection("all boxes", (images[0].shape[0], images[0].shape[1]), _CLASSES, len(_CLASSES))
    compared = [
        task.compare(task.as_truth(wanted, (image.shape[0], image.shape[1])), each)
        for image, wanted, each in zip(images, exact, seen)
    ]
    agreed = score(task.agreement(compared)[0]).value or 0.0
    counts = (len(images), found.detections, found.found, false)
    return Row(file, form, layers, *counts, agreed, found.overlap, found.scores)


def _draw(picture: Path, images: Sequence[np.ndarray], forms: Sequence[Sequence[Detections]]) -> None:
    """The first images side by side, a row for each form."""
    rows = []
    for detections in forms:
        drawn = (with_boxes(image, above(each, CONFIDENT), _CLASSES) for image, each in zip(images, detections))
        shown = [Image.fromarray(each) for each in islice(drawn, _SHOWN)]
        scaled = [each.resize((round(each.width * _HEIGHT / each.height), _HEIGHT)) for each in shown]
        rows.append(np.concatenate([np.array(each) for each in scaled], axis=1))
    with writing(picture.with_name(_PICTURE)) as file:
        Image.fromarray(np.concatenate(rows)).save(file, "JPEG", quality=85)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    rows = [Row(**row) for row in document["rows"]]
    picture = f"![Above, what {rows[0].file} detects in FP32; below, in INT8]({_PICTURE})"
    return rows_page(document, COLUMNS, map(_line, rows), picture)


def _line(row: Row) -> str:
    counts = (row.layers, row.images, row.faces, row.found, row.false)
    measures = (f"{100 * row.agreement:.2f}", f"{row.overlap:.3f}", f"{row.scores:.3f}")
    cells = (row.file, row.form, *counts, *measures)
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    run(main)
