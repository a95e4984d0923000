"""What INT8 networks say of images beside FP32, measured in a process of its own with one thread.

``python -m tests.accuracy.measure SUBJECT`` prints one JSON object: for each form of the network the numbers of the
images about which it and FP32 disagree, a bit for each image, set where it misses the label, and the mean of one less
the cosine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from quantkit.data.batches import Batch
    from quantkit.data.samples import Samples
    from quantkit.ir.graph import Graph
    from quantkit.models.model import Model

    Read = Callable[[], Iterator[Batch]]

BATCH = 40

# One thread adds up in one order, whatever the machine has.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Subject:
    """A network and how it is measured: the presets, the engines besides that run the ONNX file of ``balanced``.

    ``data`` is ``digits``, ``cifar10`` or ``imagenet``; ``preprocess`` is that of a network without a card.
    """

    name: str
    data: str
    presets: tuple[str, ...] = ("balanced",)
    onnx: tuple[str, ...] = ()
    preprocess: Mapping[str, Any] | None = None


_CIFAR = {"mean": (0.4914, 0.4822, 0.4465), "std": (0.2023, 0.1994, 0.2010)}
_PHOTOGRAPH = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
_ROTATED = {"mean": (1.0, 1.0, 1.0), "std": (1.0, 1.0, 1.0), "scale": 127.5, "rotate180": True}

_PRESETS = ("none", "fast", "balanced", "best")
_ENGINES = ("onnxruntime", "openvino")

SHIPPED = (
    Subject("digits_resnet20_v1", "digits", _PRESETS, _ENGINES),
    Subject("digits_resnet20_v2", "digits", _PRESETS, _ENGINES),
)
REAL = (
    Subject("cifar_resnet20_v1", "cifar10", preprocess=_CIFAR),
    Subject("cifar_resnet20_v2", "cifar10", preprocess=_CIFAR),
    Subject("squeezenet1.0", "imagenet", preprocess=_PHOTOGRAPH),
    Subject("mobilenet0.25_relu6", "imagenet", preprocess=_ROTATED),
    Subject("mobilenetv2_1.0", "imagenet", preprocess=_ROTATED),
)
SUBJECTS = {subject.name: subject for subject in (*SHIPPED, *REAL)}

_CIFAR_IMAGES = 2000


def digits_and_mixtures() -> tuple[np.ndarray, np.ndarray]:
    """The 360 test digits, then each four times with another digit shining through, about which networks are in doubt.

    Returns:
        Pixels uint8 (1800, 32, 32, 3), and the stronger digits' labels (1800,).
    """
    from quantkit.data.builtin import digits

    random = np.random.default_rng(0)
    samples = list(digits("test"))
    images, labels = [sample.image for sample in samples], [sample.label for sample in samples]
    for sample in samples:
        others = [other.image for other in samples if other.label != sample.label]
        for _ in range(4):
            share = random.uniform(0.5, 0.7)
            mixture = share * sample.image + (1 - share) * others[random.integers(len(others))]
            images.append(np.rint(mixture).astype(np.uint8))
            labels.append(sample.label)
    return np.stack(images), np.array(labels)


def views(folder: str) -> tuple[np.ndarray, np.ndarray]:
    """Of each photograph, 256 pixels high and wide, the centre and the four corners.

    Returns:
        Pixels uint8 (5 x photographs, 224, 224, 3), and labels.
    """
    from PIL import Image

    from quantkit.data.sources import load_data

    images, labels = [], []
    for sample in load_data(folder):
        small = np.asarray(Image.fromarray(sample.image).resize((256, 256), Image.Resampling.BILINEAR))
        for top, left in ((16, 16), (0, 0), (0, 32), (32, 0), (32, 32)):
            images.append(small[top : top + 224, left : left + 224])
            labels.append(sample.label)
    return np.stack(images), np.array(labels)


def _loaded(subject: Subject) -> tuple[Model, Any, Samples]:
    """The model, its calibration samples and its test samples."""
    from quantkit.data.preprocess import Preprocess
    from quantkit.data.samples import take
    from quantkit.data.sources import load_data
    from quantkit.models.load import load_model

    if subject.preprocess is None:
        return load_model(subject.name, quiet=True), "digits:train", load_data(digits_and_mixtures())
    data = Path(os.environ["QUANTKIT_REAL_DATA"])
    side, sizes = (32, {}) if subject.data == "cifar10" else (224, {"resize": 256, "crop": 224})
    preprocess = Preprocess(**{"resize": None, "crop": None, **sizes, **subject.preprocess})
    model = load_model(data / "weights" / subject.name, input_shape=(3, side, side), preprocess=preprocess, quiet=True)
    if subject.data == "cifar10":
        test = take(load_data(data / "cifar10" / "test-even.npz"), _CIFAR_IMAGES)
        return model, data / "cifar10" / "train-2000.npz", test
    return model, f"{data / 'imagenet'}:calib", load_data(views(f"{data / 'imagenet'}:test"))


def _forms(subject: Subject, model: Model, calibration: Any, read: Read) -> Iterator[tuple[str, np.ndarray]]:
    """The name and the outputs of FP32, then of each INT8 form."""
    import quantkit
    from quantkit.backends.mxnet.stream import outputs_of
    from quantkit.backends.registry import ONNX_ENGINES
    from quantkit.bundle.export import int8_onnx

    def computed(graph: Graph) -> np.ndarray:
        return np.concatenate([out[0] for out in outputs_of(graph, (batch.data for batch in read()), BATCH)])

    yield "fp32", computed(model.graph)
    fused = quantkit.fuse(model, calibration)
    table = quantkit.calibrate(fused, calibration)
    plan = quantkit.plan(fused, table)
    for preset in subject.presets:
        int8 = quantkit.lower(fused, table, quantkit.apply_algorithms(fused, table, plan, calibration, preset))
        yield preset, computed(int8.graph)
        for engine in subject.onnx if preset == "balanced" else ():
            session = ONNX_ENGINES[engine].backend().open_session(int8_onnx(model, int8.network, int8.settings))
            (name,) = session.inputs
            outputs = [session.run({name: batch.data})[0] for batch in read()]
            yield f"{preset}, ONNX in {engine}", np.concatenate(outputs)


def measured(subject: Subject) -> dict[str, Any]:
    """What the forms of a network say of its images."""
    from quantkit.data.batches import batches
    from quantkit.evaluation.accuracy import hits
    from quantkit.evaluation.agreement import cosines, same_top1

    model, calibration, test = _loaded(subject)

    def read() -> Iterator[Batch]:
        return batches(test, model.preprocess, model.input_shape, BATCH)

    labels = np.array([sample.label for sample in test])
    forms: dict[str, Any] = {}
    reference = None
    for name, outputs in _forms(subject, model, calibration, read):
        reference = outputs if reference is None else reference
        forms[name] = {
            "differs": np.flatnonzero(~same_top1(reference, outputs)).tolist(),
            "misses": np.packbits(~hits(outputs, labels)).tobytes().hex(),
            "one_less_cosine": round(float(np.mean(1 - cosines(reference, outputs))), 9),
        }
    return {"images": len(labels), "forms": forms}


def in_a_process(name: str, **environment: str) -> dict[str, Any]:
    """What ``measured`` finds for the subject of that name, in a fresh process with one thread."""
    command = [sys.executable, "-m", "tests.accuracy.measure", name]
    everything = {**os.environ, **ONE_THREAD, **environment}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=everything, cwd=Path(__file__).parents[2]
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    json.dump(measured(SUBJECTS[sys.argv[1]]), sys.stdout)
