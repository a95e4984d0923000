"""Every loader of files that strangers may have made: a sound file of each, and the function that reads it.

The table of damage (``test_damaged_files``) and the fuzzing (``tests/fuzz``) both go by this list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quantkit.benchmark.results.result_files import CELLS
from quantkit.bundle.bundle import Bundle
from quantkit.bundle.training_record import read_training_record
from quantkit.calibration.table import read_table
from quantkit.data.coco_json import read_coco, read_coco_images, read_coco_people
from quantkit.data.decode import decode, decode_classes
from quantkit.data.folder import images_folder
from quantkit.data.npz import npy_file, npz_file
from quantkit.data.packed import packed_folder
from quantkit.data.record import record_file
from quantkit.data.samples import Sample, Samples
from quantkit.data.voc_xml import read_voc_annotation
from quantkit.errors import UserError
from quantkit.formats.mxnet import nnvm
from quantkit.formats.mxnet.params import read_params
from quantkit.formats.npz import read_npy, read_npz
from tests import sound_files as sound
from tests import sound_onnx


@dataclass(frozen=True)
class Loader:
    """One loader.

    ``file`` is the name of the file that is damaged, ``sound`` its content, ``beside`` what has to lie in the same
    folder, and ``load`` reads it. ``checked``: the format has a checksum, so that other bytes never give other values.
    """

    name: str
    file: str
    sound: Callable[[], bytes]
    load: Callable[[Path], object]
    beside: Callable[[], Mapping[str, bytes]] = dict
    checked: bool = False


def _all(samples: Samples) -> list[tuple[bytes, object]]:
    return [_all_of(sample) for sample in samples]


def _all_of(sample: Sample) -> tuple[bytes, object]:
    return sample.image.tobytes(), sample.label


def _bytes(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[bytes, str, tuple[int, ...]]]:
    return {name: (array.tobytes(), array.dtype.str, array.shape) for name, array in arrays.items()}


def _load_samples(path: Path) -> object:
    return _all(npz_file(path))


def _load_packed(path: Path) -> object:
    return [(sample.name, *_all_of(sample)) for sample in packed_folder(path.parent)]


def _packed_loader(file: str) -> Loader:
    def beside() -> Mapping[str, bytes]:
        return {other: content for other, content in sound.packed().items() if other != file}

    return Loader(f"packed {file}", file, lambda: sound.packed()[file], _load_packed, beside)


def _load_image(path: Path) -> object:
    return decode(path, path.name).tobytes()


def _load_symbol(path: Path) -> object:
    from quantkit.models.symbol import inference_graph, noted_shapes, read_symbol

    text = read_symbol(path)
    return nnvm.serialize(inference_graph(text, str(path))), noted_shapes(text)


def _load_weights(path: Path) -> object:
    from quantkit.models.weight_files import read_weights

    return _bytes(read_weights(path))


def _load_onnx(path: Path) -> object:
    from quantkit.models.onnx_file import from_onnx

    found = from_onnx(path.parent / "net.onnx", None, None)
    return nnvm.serialize(found.graph), _bytes(found.graph.params), repr((found.preprocess, found.labels, found.source))


def _load_bundled_onnx(path: Path) -> object:
    return Bundle(path.parent, None, None, ())._read_onnx(path.name)  # type: ignore[arg-type]


def _load_card(path: Path) -> object:
    from quantkit.models.card import read_card
    from quantkit.models.labels import label_names

    card = read_card(path.parent / "net.toml")
    return repr(card), label_names(card)


def _load_manifest(path: Path) -> object:
    from quantkit.bundle.manifest_file import read_manifest

    return repr(read_manifest(path.parent))


def _load_quantized(path: Path) -> object:
    from quantkit.bundle.quantization import read_quantized

    found = read_quantized(path.parent, sound.quantized_files()[1])
    return nnvm.serialize(found.graph), _bytes(found.graph.params), repr(found.plan)


def _quantized_loader(name: str, file: str) -> Loader:
    def beside() -> Mapping[str, bytes]:
        return {other: content for other, content in sound.quantized_files()[0].items() if other != file}

    return Loader(name, file, lambda: sound.quantized_files()[0][file], _load_quantized, beside)


def _load_checkpoint(path: Path) -> object:
    from quantkit.training.checkpoint import read_checkpoint

    found = read_checkpoint(path, "training")
    if found is None:
        raise UserError("there is no checkpoint, so that a training begins")
    return repr(found.epochs), found.best_epoch, _bytes(found.state), _bytes(found.best)


def _load_journal(path: Path) -> object:
    from quantkit.mixed_precision.journal import Journal

    return list(Journal(path))


def _load_notes(path: Path) -> object:
    from quantkit.models.download import _begun

    return _begun(path, sound.ADDRESS)


def _load_trusted(path: Path) -> object:
    from quantkit.models.trust import read_record

    return read_record(path)


def _load_engines(path: Path) -> object:
    from unittest.mock import patch

    from quantkit.deployment import fastest

    with patch.dict("os.environ", QUANTKIT_HOME=str(path.parents[1])):
        return repr(fastest._read(path.stem))


def _load_deployment(path: Path) -> object:
    from quantkit.deployment.deployment_file import read_deployment

    return repr(read_deployment(path))


def _load_signals(path: Path) -> object:
    from quantkit.drift.reference import read_reference, reference_bytes

    return reference_bytes(read_reference(path))


def _load_events(path: Path) -> object:
    from quantkit.deployment.watching.history import read_events

    return repr(read_events(path))


def _load_build(path: Path) -> object:
    from unittest.mock import patch

    from quantkit.benchmark.builds.build_folder import read_record

    with patch.dict("os.environ", QUANTKIT_HOME=str(path.parents[2])):
        return repr(read_record("b"))


def _load_suite(path: Path) -> object:
    from quantkit.benchmark.suites.suite import read_suite

    return repr(read_suite(path))


def _load_accuracy_suite(path: Path) -> object:
    from quantkit.benchmark.accuracy.suite import read_accuracy_suite

    return repr(read_accuracy_suite(path))


def _load_accuracy_table(path: Path) -> object:
    from quantkit.benchmark.accuracy.table import read_accuracy

    return repr(read_accuracy(path, "suite"))


def _load_run(path: Path) -> object:
    from quantkit.benchmark.results.result_files import read_run

    return repr(read_run(path.parent))


def _load_result(path: Path) -> object:
    from quantkit.benchmark.results.result_files import read_cells

    return repr(read_cells(path.parents[1]))


def _images(kinds: Mapping[str, dict[str, Any]]) -> Iterable[Loader]:
    for kind, options in kinds.items():
        file = f"image.{kind.lower()}"
        yield Loader(f"image {kind}", file, sound.image(kind, **options), _load_image)


LOADERS = (
    Loader("npz samples", "x.npz", sound.npz(np.savez), _load_samples, checked=True),
    Loader("npz samples, compressed", "x.npz", sound.npz(np.savez_compressed), _load_samples, checked=True),
    Loader("npz weights", "x.npz", sound.npz(np.savez_compressed), _load_weights, checked=True),
    Loader("npz", "x.npz", sound.npz(np.savez), lambda path: _bytes(read_npz(path)), checked=True),
    Loader("npy", "x.npy", sound.npy, lambda path: _bytes({"x": read_npy(path)})),
    Loader("npy samples", "x.npy", sound.npy, lambda path: _all(npy_file(path))),
    Loader("rec", "x.rec", sound.record, lambda path: _all(record_file(path))),
    *(_packed_loader(file) for file in sound.packed()),
    Loader("params", "net.params", sound.params, lambda path: _bytes(read_params(path))),
    Loader("symbol", "net-symbol.json", sound.symbol, _load_symbol),
    *_images({"PNG": {}, "JPEG": {}, "GIF": {}, "BMP": {}, "PPM": {}, "TIFF": {"compression": "tiff_lzw"}, "WEBP": {}}),
    Loader("mask", "mask.png", sound.mask, lambda path: decode_classes(path, path.name).tobytes()),
    Loader("voc annotation", "a.xml", sound.voc_annotation, lambda path: repr(read_voc_annotation(path))),
    Loader("coco annotations", "val.json", sound.coco_annotations, lambda path: repr(read_coco(path))),
    Loader("coco images", "val.json", sound.coco_annotations, lambda path: repr(read_coco_images(path))),
    Loader("coco people", "people.json", sound.coco_people, lambda path: repr(read_coco_people(path))),
    Loader("onnx", "net.onnx", sound_onnx.onnx_inside, _load_onnx),
    Loader("recurrent onnx", "net.onnx", sound_onnx.onnx_recurrent, _load_onnx),
    Loader("attending onnx", "net.onnx", sound_onnx.onnx_attending, _load_onnx),
    Loader("onnx beside its weights", "net.onnx", lambda: sound_onnx.onnx_outside()[0], _load_onnx,
           lambda: {"w.bin": sound_onnx.onnx_outside()[1]}),
    Loader("onnx weights", "w.bin", lambda: sound_onnx.onnx_outside()[1], _load_onnx,
           lambda: {"net.onnx": sound_onnx.onnx_outside()[0]}),
    Loader("onnx of a bundle", "model.onnx", lambda: sound_onnx.written_onnx().SerializeToString(), _load_bundled_onnx),
    Loader("onnx of a bundle, with an LSTM layer", "model-dynamic.onnx", sound_onnx.lstm_onnx, _load_bundled_onnx),
    Loader("safetensors", "net.safetensors", sound.safetensors, _load_weights),
    Loader("labels.csv", "labels.csv", lambda: b"file,label,split\na.png,3,test\nb.png,1,calib\n",
           lambda path: _all(images_folder(path.parent)),
           lambda: {"a.png": sound.image("PNG")(), "b.png": sound.image("PNG")()}),
    Loader("card", "net.toml", lambda: sound.CARD, _load_card, lambda: {"labels.txt": b"cat\ndog\ncow\n"}),
    Loader("card's labels", "labels.txt", lambda: b"cat\ndog\ncow\n", _load_card, lambda: {"net.toml": sound.CARD}),
    Loader("manifest", "manifest.json", sound.manifest, _load_manifest),
    Loader("record of a training", "training.json", sound.training_record,
           lambda path: repr(read_training_record(path))),
    _quantized_loader("quantization", "quantization.json"),
    _quantized_loader("fused symbol", "fused-symbol.json"),
    Loader("table", "calibration.json", sound.table, lambda path: repr(read_table(path))),
    Loader("journal", "search.jsonl", sound.journal, _load_journal),
    Loader("checkpoint of a training", "net.checkpoint", sound.checkpoint, _load_checkpoint, checked=True),
    Loader("download notes", ".net.params.part.json", sound.download_notes, _load_notes),
    Loader("trust record", "net.params.record.json", sound.trust_record, _load_trusted),
    Loader("engines", "engines/net.json", sound.engines, _load_engines),
    Loader("deployment", "deployment.toml", sound.deployment, _load_deployment),
    Loader("signals of a bundle", "signals.npz", sound.signals, _load_signals, checked=True),
    Loader("events of a deployment", "events.jsonl", sound.events, _load_events),
    Loader("build", "builds/b/build.json", sound.build_record, _load_build),
    Loader("suite", "suite.toml", sound.suite_file, _load_suite),
    Loader("accuracy suite", "suite.toml", sound.accuracy_suite_file, _load_accuracy_suite),
    Loader("accuracy table", "accuracy.json", sound.accuracy_table, _load_accuracy_table),
    Loader("run", "run.json", lambda: sound.results()[0], _load_run),
    Loader("result", f"{CELLS}/result.json", lambda: sound.results()[1], _load_result),
)  # fmt: skip


def placed(loader: Loader, folder: Path, content: bytes) -> Path:
    """The file with this content, and what has to lie beside it, in a folder."""
    for name, beside in loader.beside().items():
        (folder / name).write_bytes(beside)
    path = folder / loader.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
