"""What the pages take as given: a network, its images and its bundle, all small, under the names that readers see."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from quantkit.files.files import shipped
from tests.deployment.serving.process import make_certificate
from tests.docs.snippets import ROOT
from tests.sequences import sequence_network, sequences

_CALIBRATION, _VALIDATION, _TEST = 100, 40, 60

Make = Callable[[Path], None]


@pytest.fixture(autouse=True)
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found by it does not matter here."""
    for constant, seconds in (("_LEAST", 0.02), ("_MOST", 0.02), ("_PROOF", 0.2)):
        monkeypatch.setattr(f"quantkit.mixed_precision.never_slower.{constant}_SECONDS", seconds)


@pytest.fixture(scope="session")
def make_given(int8_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Path], None]:
    """Put one of the given files into a folder; each is made once."""
    store = tmp_path_factory.mktemp("given")

    def put(name: str, folder: Path) -> None:
        made = store / name
        for needed in _NEEDS.get(name, ()):
            put(needed, store)
        if not made.exists():
            _MAKERS[name](store)
        target = folder / name
        if target.exists():
            return
        if made.is_dir():
            shutil.copytree(made, target)
        else:
            shutil.copyfile(made, target)

    return put


def _photos(store: Path) -> None:
    """Digits as PNG files in three splits, labelled."""
    folder = store / "photos"
    folder.mkdir()
    with (folder / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("file", "label", "split"))
        splits = {
            "calib": ("digits:train", range(_CALIBRATION)),
            "val": ("digits:train", range(_CALIBRATION, _CALIBRATION + _VALIDATION)),
            "test": ("digits:test", range(_TEST)),
        }
        for split, (spec, positions) in splits.items():
            for number, (pixels, label) in enumerate(_digits(spec, positions)):
                name = f"{split}-{number:03}.png"
                Image.fromarray(pixels).save(folder / name)
                rows.writerow((name, label, split))


def _digits(spec: str, positions: range) -> Iterator[tuple[np.ndarray, int]]:
    import quantkit as qk

    for sample in qk.load_data(spec).read(positions):
        assert sample.label is not None
        yield np.asarray(sample.image), sample.label


def _preprocessed(store: Path) -> None:
    pixels, labels = zip(*_digits("digits:test", range(_TEST)))
    scaled = (np.stack(pixels).astype(np.float32) / 255 - 0.5) / 0.5
    np.savez(store / "images.npz", x=scaled.transpose(0, 3, 1, 2), y=np.array(labels))


def _network(store: Path) -> None:
    """A network of the reader's: a checkpoint with a card and a list of labels."""
    folder = store / "my"
    folder.mkdir()
    for suffix in ("symbol.json", "0000.params"):
        shutil.copyfile(shipped("models") / f"digits_resnet20_v1-{suffix}", folder / f"net-{suffix}")
    (folder / "net-labels.txt").write_text("".join(f"{digit}\n" for digit in range(10)))
    card = (ROOT / "docs" / "pages" / "how-to" / "model-card.md").read_text(encoding="utf-8")
    (folder / "net.toml").write_text(card.partition("```toml\n")[2].partition("```")[0])


def _onnx_file(store: Path) -> None:
    """A file as other tools write it: it says nothing of preprocessing and labels."""
    import onnx

    import quantkit as qk

    qk.export_onnx(str(store / "my" / "net.toml"), store / "net.onnx")
    network = onnx.load(store / "net.onnx")
    del network.metadata_props[:]
    onnx.save(network, store / "net.onnx")


def _bundle(store: Path) -> None:
    import quantkit as qk

    model = qk.load_model(str(store / "my" / "net.toml"))
    config = qk.QuantizationConfig(num_samples=20)
    qk.quantize(model, str(store / "photos:calib"), config).save(store / "net-int8", formats=("mxnet", "onnx"))


def _language_model(store: Path) -> None:
    """A small language model with a card, and token ids with the next ones as labels."""
    from quantkit.backends.mxnet.checkpoint import write_checkpoint

    folder = store / "lm"
    folder.mkdir()
    with (folder / "lm-symbol.json").open("wb") as symbol, (folder / "lm-0000.params").open("wb") as params:
        write_checkpoint(sequence_network("TN", "inputs"), symbol, params)
    page = (ROOT / "docs" / "pages" / "how-to" / "sequences.md").read_text(encoding="utf-8")
    (folder / "lm.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
    for name, seed in (("train", 1), ("test", 2)):
        text = sequences(41, tokens=True, seed=seed)
        np.savez(folder / f"{name}.npz", x=text[:-1], y=np.roll(text, -1)[:-1])


def _photograph(package: str, source: str, name: str) -> Make:
    def make(store: Path) -> None:
        from importlib.util import find_spec

        spec = find_spec(package)
        assert spec is not None and spec.submodule_search_locations is not None
        Image.open(Path(spec.submodule_search_locations[0]) / source).convert("RGB").save(store / name)

    return make


def _street(store: Path) -> None:
    """A scene of digits."""
    from quantkit.data.scenes import scene_images

    Image.fromarray(next(iter(scene_images("test"))).image).save(store / "street.png")


def _pairs_network(store: Path) -> None:
    """A network that reads a picture and numbers that belong to it."""
    import onnx

    from tests.formats.onnx.reading.files import Writer

    w = Writer()
    seen = w.op("Flatten", w.op("GlobalAveragePool", w.op("Relu", w.conv("picture", 3, 8))))
    measured = w.op("Relu", w.op("Gemm", "numbers", w.normal(6, 5), w.normal(6), transB=1))
    scores = w.op("Gemm", w.op("Concat", seen, measured, axis=1), w.normal(4, 14), w.normal(4), transB=1)
    model = w.model(scores)
    del model.graph.input[:]
    for name, shape in _PAIRS.items():
        model.graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", *shape]))
    onnx.save(model, store / "pairs.onnx")


def _pairs(store: Path) -> None:
    random = np.random.default_rng(0)
    given = {name: random.normal(size=(30, *shape)).astype(np.float32) for name, shape in _PAIRS.items()}
    np.savez(store / "pairs.npz", **given, y=random.integers(0, 4, 30))


def _token(store: Path) -> None:
    (store / "token").write_text("0123456789abcdef\n")


_MAKERS: dict[str, Make] = {
    "photos": _photos,
    "images.npz": _preprocessed,
    "my": _network,
    "net.onnx": _onnx_file,
    "net-int8": _bundle,
    "lm": _language_model,
    "cat.jpg": _photograph("skimage", "data/chelsea.png", "cat.jpg"),
    "temple.jpg": _photograph("sklearn", "datasets/images/china.jpg", "temple.jpg"),
    "street.png": _street,
    "token": _token,
    "key.pem": make_certificate,
    "pairs.onnx": _pairs_network,
    "pairs.npz": _pairs,
}
_PAIRS = {"picture": (3, 12, 12), "numbers": (5,)}
_NEEDS = {"net.onnx": ("my",), "net-int8": ("my", "photos"), "cert.pem": ("key.pem",)}
