"""Every loader of files that strangers may have made: a sound file of each, and the function that reads it.

The table of damage (``test_damaged_files``) and the fuzzing (``tests/fuzz``) both go by this list.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from quantkit.benchmark.result_files import CELLS
from quantkit.bundle.read import Bundle
from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable, read_table, write_table
from quantkit.data.decode import decode
from quantkit.data.folder import images_folder
from quantkit.data.npz import npz_file
from quantkit.data.record import record_file
from quantkit.data.samples import Samples
from quantkit.files import shipped
from quantkit.folders import scratch_folder
from quantkit.formats.npz import read_npy, read_npz
from quantkit.graph import nnvm
from quantkit.graph.params import read_params, write_params
from tests.networks import residual_v1

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), np.uint8)
LABELS = np.arange(6, dtype=np.uint8)


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


def _npz(save: Callable[..., None]) -> Callable[[], bytes]:
    def sound() -> bytes:
        file = io.BytesIO()
        save(file, x=PIXELS, y=LABELS)
        return file.getvalue()

    return sound


def _npy() -> bytes:
    file = io.BytesIO()
    np.save(file, PIXELS)
    return file.getvalue()


def _image(kind: str, **options: Any) -> Callable[[], bytes]:
    def sound() -> bytes:
        file = io.BytesIO()
        Image.fromarray(PIXELS[0]).save(file, kind, **options)
        return file.getvalue()

    return sound


def _record() -> bytes:
    contents = [struct.pack("<IfQQ", 0, label, 1, 0) + _image("PNG")() for label in range(3)]
    return b"".join(
        struct.pack("<II", 0xCED7230A, len(content)) + content + bytes(-len(content) % 4) for content in contents
    )


def _params() -> bytes:
    file = io.BytesIO()
    write_params(file, {f"arg:{name}": value for name, value in list(residual_v1().params.items())[:3]})
    return file.getvalue()


def _symbol() -> bytes:
    return nnvm.serialize(residual_v1()).encode()


def _onnx() -> Any:
    """A small network with a shape that is computed, so that constants are folded, and with quantkit's metadata."""
    from onnx import helper

    from tests.onnx_import.files import Writer

    w = Writer(13, ("N", 3, 4, 4))
    data = w.op("Relu", w.conv("x", 3, 2))
    batch = w.op("Unsqueeze", w.op("Gather", w.op("Shape", data), np.array(0), axis=0), np.array([0]))
    shape = w.op("Concat", batch, np.array([-1]), axis=0)
    model = w.model(w.op("Gemm", w.op("Reshape", data, shape), w.normal(3, 8), w.normal(3), transB=1))
    preprocess = {"resize": 5, "crop": 4, "mean": [0.5] * 3, "std": [0.25] * 3, "scale": 255.0, "rotate180": False}
    told = {"preprocess": json.dumps(preprocess), "labels": json.dumps(["cat", "dog", "cow"])}
    helper.set_model_props(model, told)
    return model


def _onnx_inside() -> bytes:
    content: bytes = _onnx().SerializeToString()
    return content


def _onnx_outside() -> tuple[bytes, bytes]:
    """The same network with its weights in another file, and that file."""
    from onnx import TensorProto

    model, weights = _onnx(), b""
    for tensor in model.graph.initializer:
        tensor.data_location = TensorProto.EXTERNAL
        places = {"location": "w.bin", "offset": len(weights), "length": len(tensor.raw_data)}
        for key, value in places.items():
            tensor.external_data.add(key=key, value=str(value))
        weights += tensor.raw_data
        tensor.ClearField("raw_data")
    return model.SerializeToString(), weights


def _safetensors() -> bytes:
    arrays = {"a": np.arange(6, dtype="<f4").reshape(2, 3), "b": np.arange(4, dtype="<f2")}
    header, values = {}, b""
    for (name, array), kind in zip(arrays.items(), ("F32", "F16")):
        places = [len(values), len(values) + array.nbytes]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": places}
        values += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + values


CARD = b"""name = "net"
symbol = "net-symbol.json"
params = "net-0000.params"
input_shape = [3, 224, 224]
classes = 3
labels = "labels.txt"

[preprocess]
resize = 256
crop = 224
scale = 255.0
mean = [0.485, 0.456, 0.406]
std = [0.229, 0.224, 0.225]
"""


def _table() -> bytes:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        ranges = {"conv0": Range(-1.25, 3.5), "relu0": Range(0.0, 7.75)}
        write_table(CalibrationTable("mse", 10, "photos", ranges, "a" * 64, "b" * 64), Path(folder) / "t.json")
        return (Path(folder) / "t.json").read_bytes()


def _manifest() -> bytes:
    from quantkit.bundle import manifest as m

    files = {name: m.FileEntry("0" * 64, 10) for name in sorted(m.REQUIRED_INT8)}
    return m.manifest_text(
        m.Manifest(
            "int8", "net", "0.1.0", m.Engine("1.9.1", "1.26.4", "avx512_vnni"), m.Input("data", (3, 8, 8)),
            (m.Output("softmax", (10,)),), m.Origin("net", "pretrained", "net.params", "c" * 64),
            m.Settings("mse", 10, "photos", (), "int8"), m.FusionResult(4, 1e-6, 1e-4, 0),
            m.AgreementResult(10, 1.0, 0.999), files,
        )
    ).encode()  # fmt: skip


def _journal() -> bytes:
    lines = [{"what": ["trial", name], "value": {"milliseconds": 0.25}} for name in ("a", "b")]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


_ADDRESS = "https://example.org/net.params"


def _notes() -> bytes:
    from quantkit.models.download import _Begun

    return json.dumps(asdict(_Begun(_ADDRESS, '"one"', 1000, "c" * 40, "d" * 64))).encode()


def _trusted() -> bytes:
    from quantkit.models.trust import FORMAT, Record

    record = Record("url", _ADDRESS, "c" * 40, '"one"', 1000, "d" * 64, "2026-01-02T03:04:05+00:00")
    return json.dumps({"format": FORMAT, **asdict(record)}).encode()


def _engines() -> bytes:
    from quantkit.deployment.fastest import Measured

    measured = Measured("a processor", 2, {"mxnet": "1.9.1", "openvino": "2026.4.1"}, {"mxnet": 1.5}, ("openvino",))
    return json.dumps([asdict(measured)]).encode()


def _build() -> bytes:
    from pydantic import TypeAdapter

    from quantkit.benchmark.build import Build

    build = Build("b", "/python", "3.11", "1.26", "1.9.1", "/lib", ("MKLDNN",), True)
    return json.dumps({"build": TypeAdapter(Build).dump_python(build), "stamp": "s"}).encode()


def _suite() -> bytes:
    return (shipped("benchmarks") / "smoke.toml").read_bytes()


def _results() -> tuple[bytes, bytes]:
    """What a run of a suite says of itself, and one of its results."""
    from tempfile import TemporaryDirectory

    from quantkit.benchmark.result_files import write_cell, write_run
    from tests.benchmark.cells import cell, closed_loop
    from tests.benchmark.fakes import run_of, suite

    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / CELLS).mkdir()
        write_run(run_of(suite()), folder)
        write_cell(cell([[closed_loop([3, 4])]]), folder)
        (result,) = (folder / CELLS).iterdir()
        return (folder / "run.json").read_bytes(), result.read_bytes()


def _all(samples: Samples) -> list[tuple[bytes, object]]:
    return [(sample.image.tobytes(), sample.label) for sample in samples]


def _bytes(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[bytes, str, tuple[int, ...]]]:
    return {name: (array.tobytes(), array.dtype.str, array.shape) for name, array in arrays.items()}


def _load_samples(path: Path) -> object:
    return _all(npz_file(path))


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


def written_onnx() -> Any:
    """A small network, as ``emission.onnx_model`` writes them."""
    from onnx import helper, numpy_helper

    shapes = [helper.make_tensor_value_info(name, 1, ["N", 3, 8, 8]) for name in ("x", "y")]
    conv = helper.make_node("Conv", ["x", "w"], ["c"], "conv", kernel_shape=[1, 1], pads=[0, 0, 0, 0], group=1)
    clip = helper.make_node("LeakyRelu", ["c"], ["y"], "leaky", alpha=0.25)
    weight = numpy_helper.from_array(np.ones((3, 3, 1, 1), np.float32), "w")
    made = helper.make_model(
        helper.make_graph([conv, clip], "network", shapes[:1], shapes[1:], [weight]),
        producer_name="quantkit", opset_imports=[helper.make_opsetid("", 17)],
    )  # fmt: skip
    helper.set_model_props(made, {"labels": '["é"]'})
    return made


def _load_bundled_onnx(path: Path) -> object:
    return Bundle(path.parent, None, None, ())._read_onnx()  # type: ignore[arg-type]


def _load_card(path: Path) -> object:
    from quantkit.models.card import read_card
    from quantkit.models.labels import label_names

    card = read_card(path.parent / "net.toml")
    return repr(card), label_names(card)


def _load_manifest(path: Path) -> object:
    from quantkit.bundle.manifest import read_manifest

    return repr(read_manifest(path.parent))


@cache
def _quantized() -> tuple[Mapping[str, bytes], Any]:
    """The files of a quantized network, and what it is lowered to."""
    from quantkit.bundle.quantization import write_quantized
    from quantkit.emission.mxnet_int8 import int8_graph
    from tests.emission.networks import quantized

    network = quantized("v1")
    with scratch_folder() as folder:
        write_quantized(network, folder)
        return {path.name: path.read_bytes() for path in folder.iterdir()}, int8_graph(network)


def _load_quantized(path: Path) -> object:
    from quantkit.bundle.quantization import read_quantized

    found = read_quantized(path.parent, _quantized()[1])
    return nnvm.serialize(found.graph), _bytes(found.graph.params), repr(found.plan)


def _quantized_loader(name: str, file: str) -> Loader:
    def beside() -> Mapping[str, bytes]:
        return {other: content for other, content in _quantized()[0].items() if other != file}

    return Loader(name, file, lambda: _quantized()[0][file], _load_quantized, beside)


def _load_journal(path: Path) -> object:
    from quantkit.search.journal import Journal

    return list(Journal(path))


def _load_notes(path: Path) -> object:
    from quantkit.models.download import _begun

    return _begun(path, _ADDRESS)


def _load_trusted(path: Path) -> object:
    from quantkit.models.trust import read_record

    return read_record(path)


def _load_engines(path: Path) -> object:
    from quantkit.deployment import fastest

    return repr(fastest._read(path))


def _load_build(path: Path) -> object:
    from unittest.mock import patch

    from quantkit.benchmark.build_folder import read_record

    with patch.dict("os.environ", QUANTKIT_HOME=str(path.parents[2])):
        return repr(read_record("b"))


def _load_suite(path: Path) -> object:
    from quantkit.benchmark.suite import read_suite

    return repr(read_suite(path))


def _load_run(path: Path) -> object:
    from quantkit.benchmark.result_files import read_run

    return repr(read_run(path.parent))


def _load_result(path: Path) -> object:
    from quantkit.benchmark.result_files import read_cells

    return repr(read_cells(path.parents[1]))


def _images(kinds: Mapping[str, dict[str, Any]]) -> Iterable[Loader]:
    for kind, options in kinds.items():
        file = f"image.{kind.lower()}"
        yield Loader(f"image {kind}", file, _image(kind, **options), _load_image)


LOADERS = (
    Loader("npz samples", "x.npz", _npz(np.savez), _load_samples, checked=True),
    Loader("npz samples, compressed", "x.npz", _npz(np.savez_compressed), _load_samples, checked=True),
    Loader("npz weights", "x.npz", _npz(np.savez_compressed), _load_weights, checked=True),
    Loader("npz", "x.npz", _npz(np.savez), lambda path: _bytes(read_npz(path)), checked=True),
    Loader("npy", "x.npy", _npy, lambda path: _bytes({"x": read_npy(path)})),
    Loader("rec", "x.rec", _record, lambda path: _all(record_file(path))),
    Loader("params", "net.params", _params, lambda path: _bytes(read_params(path))),
    Loader("symbol", "net-symbol.json", _symbol, _load_symbol),
    *_images({"PNG": {}, "JPEG": {}, "GIF": {}, "BMP": {}, "PPM": {}, "TIFF": {"compression": "tiff_lzw"}, "WEBP": {}}),
    Loader("onnx", "net.onnx", _onnx_inside, _load_onnx),
    Loader("onnx beside its weights", "net.onnx", lambda: _onnx_outside()[0], _load_onnx,
           lambda: {"w.bin": _onnx_outside()[1]}),
    Loader("onnx weights", "w.bin", lambda: _onnx_outside()[1], _load_onnx, lambda: {"net.onnx": _onnx_outside()[0]}),
    Loader("onnx of a bundle", "model.onnx", lambda: written_onnx().SerializeToString(), _load_bundled_onnx),
    Loader("safetensors", "net.safetensors", _safetensors, _load_weights),
    Loader("labels.csv", "labels.csv", lambda: b"file,label,split\na.png,3,test\nb.png,1,calib\n",
           lambda path: _all(images_folder(path.parent)),
           lambda: {"a.png": _image("PNG")(), "b.png": _image("PNG")()}),
    Loader("card", "net.toml", lambda: CARD, _load_card, lambda: {"labels.txt": b"cat\ndog\ncow\n"}),
    Loader("card's labels", "labels.txt", lambda: b"cat\ndog\ncow\n", _load_card, lambda: {"net.toml": CARD}),
    Loader("manifest", "manifest.json", _manifest, _load_manifest),
    _quantized_loader("quantization", "quantization.json"),
    _quantized_loader("fused symbol", "fused-symbol.json"),
    Loader("table", "calibration.json", _table, lambda path: repr(read_table(path))),
    Loader("journal", "search.jsonl", _journal, _load_journal),
    Loader("download notes", ".net.params.part.json", _notes, _load_notes),
    Loader("trust record", "net.params.record.json", _trusted, _load_trusted),
    Loader("engines.json", "engines.json", _engines, _load_engines),
    Loader("build", "builds/b/build.json", _build, _load_build),
    Loader("suite", "suite.toml", _suite, _load_suite),
    Loader("run", "run.json", lambda: _results()[0], _load_run),
    Loader("result", f"{CELLS}/result.json", lambda: _results()[1], _load_result),
)  # fmt: skip


def placed(loader: Loader, folder: Path, content: bytes) -> Path:
    """The file with this content, and what has to lie beside it, in a folder."""
    for name, beside in loader.beside().items():
        (folder / name).write_bytes(beside)
    path = folder / loader.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
