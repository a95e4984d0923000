"""A small classifier and a small labelled set that it can learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantkit.api import quantize
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.data.arrays import arrays
from quantkit.data.preprocess import Preprocess
from quantkit.data.samples import Samples
from quantkit.models.model import Model, Source
from quantkit.quantization.config import QuantizationConfig
from quantkit.training.augmentation import NONE
from quantkit.training.config import TrainingConfig
from tests.networks import DATA, Builder

SIZE = 8
CLASSES = 3


def tiny(classes: int = CLASSES, normalized: bool = True) -> Model:
    """Convolution, batch normalization, ReLU, pooling, dense, softmax."""
    b = Builder()
    first = b.conv("first", DATA, 3, 8, bias=not normalized)
    stem = b.relu("stem", b.batch_norm("normal", first, 8) if normalized else first)
    pooled = b.op("Pooling", "pool", stem, global_pool=True, pool_type="avg", kernel=(1, 1))
    scores = b.dense("dense", b.op("Flatten", "flat", pooled), 8, classes)
    graph = b.graph(b.op("softmax", "probabilities", scores, axis=-1))
    preprocess = Preprocess(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    return Model("tiny", graph, (3, SIZE, SIZE), preprocess, Source("tiny", "given"))


def coloured(count: int, seed: int = 0, noise: float = 40.0) -> Samples:
    """Noisy images whose class is the channel that is brightest: red, green, blue in turns."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % CLASSES
    pixels = random.normal(100, noise, (count, SIZE, SIZE, 3))
    pixels[np.arange(count), :, :, labels] += 60
    return arrays(np.clip(pixels, 0, 255).astype(np.uint8), labels, "coloured")


def stored(path: Path, number: int = 64) -> str:
    """Such images in a file, by whose name instances find them."""
    samples = list(coloured(number))
    np.savez(path, x=np.stack([each.image for each in samples]), y=[each.label for each in samples])
    return str(path)


DIVERGING = TrainingConfig(
    epochs=3,
    batch_size=16,
    learning_rate=16.0,
    weight_decay=1e5,
    warmup_epochs=0,
    schedule="constant",
    freeze=("body",),
    augmentation=NONE,
)
"""The decay multiplies the last layer by a hundred thousand in each step: of four to seven in an epoch, the eighth ends
what float32 can hold."""


@pytest.fixture(scope="package", autouse=True)
def training_engine(engine: None) -> None:
    """All of it runs in MXNet."""


@pytest.fixture(scope="package")
def spoiled(int8_engine: None) -> QuantizedModel:
    """A network whose calibration has seen but faint images, so that much is clipped."""
    faint = arrays((np.stack([sample.image for sample in coloured(24)]) // 4 + 96).astype(np.uint8), name="faint")
    return quantize(tiny(normalized=False), faint, QuantizationConfig(num_samples=24, preset="none"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return stored(tmp_path_factory.mktemp("data") / "coloured.npz")
