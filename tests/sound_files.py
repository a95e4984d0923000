"""A sound file of every kind that strangers may have made, as bytes."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from quantkit.benchmark.results.result_files import CELLS
from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable, write_table
from quantkit.files.files import shipped
from quantkit.files.folders import scratch_folder
from quantkit.formats.mxnet import nnvm
from quantkit.formats.mxnet.params import write_params
from tests.data.annotations import annotation, coco_document
from tests.networks import residual_v1

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), np.uint8)
LABELS = np.arange(6, dtype=np.uint8)


def npz(save: Callable[..., None]) -> Callable[[], bytes]:
    def sound() -> bytes:
        file = io.BytesIO()
        save(file, x=PIXELS, y=LABELS)
        return file.getvalue()

    return sound


def npy() -> bytes:
    file = io.BytesIO()
    np.save(file, PIXELS)
    return file.getvalue()


def image(kind: str, **options: Any) -> Callable[[], bytes]:
    def sound() -> bytes:
        file = io.BytesIO()
        Image.fromarray(PIXELS[0]).save(file, kind, **options)
        return file.getvalue()

    return sound


def mask() -> bytes:
    file = io.BytesIO()
    Image.fromarray(PIXELS[0, :, :, 0]).save(file, "PNG")
    return file.getvalue()


def voc_annotation() -> bytes:
    return annotation((24, 30), [("dog", (2.0, 3.5, 10.0, 20.0), 0), ("cat", (0.0, 0.0, 30.0, 24.0), 1)]).encode()


def coco_annotations() -> bytes:
    images = {"a.png": ((24, 30), [("dog", (2.0, 3.5, 10.0, 20.0), 0), ("cat", (0.0, 0.0, 30.0, 24.0), 1)])}
    return json.dumps(coco_document(images, {"dog": 44, "cat": 17})).encode()


def coco_people() -> bytes:
    person = {
        "id": 1, "image_id": 5, "category_id": 1, "bbox": [10.5, 5, 30, 50], "area": 900.5, "iscrowd": 0,
        "keypoints": [20, 10, 2, 0, 0, 0, 31.5, 40, 1],
    }  # fmt: skip
    image = {"id": 5, "file_name": "a.png", "height": 60, "width": 80}
    document = {"images": [image], "categories": [{"id": 1, "name": "person"}], "annotations": [person]}
    return json.dumps(document).encode()


def record() -> bytes:
    contents = [struct.pack("<IfQQ", 0, label, 1, 0) + image("PNG")() for label in range(3)]
    return b"".join(
        struct.pack("<II", 0xCED7230A, len(content)) + content + bytes(-len(content) % 4) for content in contents
    )


def packed() -> dict[str, bytes]:
    """A folder of one shard: the files by their names."""
    content = record()
    starts = [place for place in range(0, len(content), 4) if content.startswith(struct.pack("<I", 0xCED7230A), place)]
    shards = [{"name": "shard-00000", "images": len(starts)}]
    return {
        "shards.json": json.dumps({"format": "quantkit-shards", "version": 1, "shards": shards}).encode(),
        "shard-00000.rec": content,
        "shard-00000.idx": "".join(f"{number}\t{start}\n" for number, start in enumerate(starts)).encode(),
        "shard-00000.lst": "".join(f"{number}\t{number}\t{number}.png\n" for number in range(len(starts))).encode(),
    }


def params() -> bytes:
    file = io.BytesIO()
    write_params(file, {f"arg:{name}": value for name, value in list(residual_v1().params.items())[:3]})
    return file.getvalue()


def symbol() -> bytes:
    return nnvm.serialize(residual_v1()).encode()


def safetensors() -> bytes:
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


def table() -> bytes:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        ranges = {"conv0": Range(-1.25, 3.5), "relu0": Range(0.0, 7.75)}
        write_table(CalibrationTable("mse", 10, "photos", ranges, "a" * 64, "b" * 64), Path(folder) / "t.json")
        return (Path(folder) / "t.json").read_bytes()


def manifest() -> bytes:
    from quantkit.bundle import manifest as m
    from quantkit.bundle.file_names import REQUIRED_INT8
    from quantkit.bundle.manifest_file import manifest_text
    from quantkit.quantization.ptq_config import NO_ALGORITHMS
    from tests.quantized import SPEED

    files = {name: m.FileEntry("0" * 64, 10) for name in sorted(REQUIRED_INT8)}
    return manifest_text(
        m.Manifest(
            "int8", "net", "0.1.0", m.Engine("1.9.1", "1.26.4", "avx512_vnni"), m.Input("data", (3, 8, 8)),
            (m.Output("softmax", (10,), "softmax"),), True, m.Origin("net", "pretrained", "net.params", "c" * 64),
            m.Settings("mse", 10, "photos", (), "int8", NO_ALGORITHMS, None, SPEED), m.FusionResult(4, 1e-6, 1e-4, 0),
            m.AgreementResult(10, 1.0, (m.OutputResult("softmax", 0.999, 30.0, 0.01, 1.0),)), files,
        )
    ).encode()  # fmt: skip


def training_record() -> bytes:
    """That of a network trained with its quantization for an epoch."""
    from quantkit.bundle.training_record import training_record_text

    validated = {"samples": 32, "correct": 30, "loss": 0.25}
    epochs = [{"number": 1, "loss": 0.5, "rate": 0.1, "samples": 64, "validated": validated}]
    record = {"quantkit": "0.1.0", "train": "photos", "validation": None, "distill": True, "epochs": epochs}
    return training_record_text({**record, "config": {"epochs": 1, "freeze": ["*_log_range"]}}).encode()


def checkpoint() -> bytes:
    """That of a training after two epochs."""
    from quantkit.data.left_out import LeftOut
    from quantkit.training.checkpoint import Checkpoint, write_checkpoint
    from quantkit.training.epoch import Epoch
    from quantkit.training.unused import Unused
    from quantkit.training.validation import Validated

    epochs = [Epoch(number, 0.5 / number, 0.1, 3.0, 64, 0.25, Validated(32, 20, 0.75)) for number in (1, 2)]
    values = {"weight": np.arange(6, dtype=np.float32).reshape(2, 3), "bias": np.ones(2, np.float32)}
    unused = Unused((LeftOut(3, "3.png", "cannot read image 3.png"),), ())
    with scratch_folder() as folder:
        path = folder / "checkpoint"
        write_checkpoint(path, Checkpoint("training", epochs, values, values, 2, unused))
        return path.read_bytes()


def journal() -> bytes:
    lines = [{"what": ["trial", name], "value": {"milliseconds": 0.25}} for name in ("a", "b")]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


ADDRESS = "https://example.org/net.params"


def download_notes() -> bytes:
    from quantkit.models.download import _Begun

    return json.dumps(asdict(_Begun(ADDRESS, '"one"', 1000, "c" * 40, "d" * 64))).encode()


def trust_record() -> bytes:
    from quantkit.models.trust import FORMAT, Record

    record = Record("url", ADDRESS, "c" * 40, '"one"', 1000, "d" * 64, "2026-01-02T03:04:05+00:00")
    return json.dumps({"format": FORMAT, **asdict(record)}).encode()


def engines() -> bytes:
    from quantkit.deployment.fastest import Measured

    measured = Measured("a processor", 2, {"mxnet": "1.9.1", "openvino": "2026.4.1"}, {"mxnet": 1.5}, ("openvino",))
    return json.dumps([asdict(measured)]).encode()


def deployment() -> bytes:
    from quantkit.deployment.deployment_file import Deployment, TunedBundle, TunedHost, deployment_text
    from quantkit.deployment.instances import Instances

    bundle, host = TunedBundle("net", "int8", "0" * 64), TunedHost("0123456789abcdef", "a processor", 2)
    goal, evidence = {"goal": "throughput"}, {"images_per_second": 100.5, "over_default": [1.2, 1.1, 1.3]}
    return deployment_text(Deployment(bundle, host, "mxnet", "1.9.1", Instances("core"), 2, goal, evidence)).encode()


def signals() -> bytes:
    from quantkit.drift.reference import reference_bytes, reference_of

    values = np.linspace(0, 1, 9)
    return reference_bytes(reference_of([{"input.mean": values, "input.spread": values + 1, "output.mean": -values}]))


def events() -> bytes:
    from quantkit.deployment.watching.events import Changed, Ended, Figures, Started

    time = "2026-01-02T03:04:05+00:00"
    told = [
        Started(time, "net", "0" * 64, "mxnet", 64, {"input.mean": (0.5, 0.25, 0.4)}),
        Changed(time, "drift", "input.mean", 16, 2.0, 1.0),
        Figures(time, 100, 50, {"input.mean": (2.0, 1.0)}, {"input.mean": time}, 10, 9, 1),
        Ended(time),
    ]
    return b"".join(json.dumps(asdict(each)).encode() + b"\n" for each in told)


def build_record() -> bytes:
    from pydantic import TypeAdapter

    from quantkit.benchmark.build import Build

    build = Build("b", "/python", "3.11", "1.26", "1.9.1", "/lib", ("MKLDNN",), True)
    return json.dumps({"build": TypeAdapter(Build).dump_python(build), "stamp": "s"}).encode()


def suite_file() -> bytes:
    return (shipped("benchmarks") / "smoke.toml").read_bytes()


def accuracy_suite_file() -> bytes:
    return (shipped("benchmarks") / "accuracy.toml").read_bytes()


def accuracy_table() -> bytes:
    """The table of a network in FP32 and in a form that failed."""
    from quantkit.benchmark.accuracy.forms import FUSED, UNFUSED
    from quantkit.benchmark.accuracy.rows import PerImage, Row, document
    from quantkit.benchmark.accuracy.table import NetworkAccuracy

    right = np.array([True, True, False])
    images = PerImage(right, right, ~right, np.array([1.0, 0.5, 0.25]))
    rows = [
        Row("net", UNFUSED, None, images),
        Row("net", FUSED, None, images),
        Row("net", "mse", 8, failure="no memory"),
    ]
    network = NetworkAccuracy("net", "key", tuple(document(rows)), None, "2026-01-01", {"cpu": "x"}, {"commit": "y"})
    return json.dumps({"suite": "suite", "networks": [asdict(network)]}).encode()


def results() -> tuple[bytes, bytes]:
    """What a run of a suite says of itself, and one of its results."""
    from tempfile import TemporaryDirectory

    from quantkit.benchmark.results.result_files import write_cell, write_run
    from tests.benchmark.cells import cell, closed_loop
    from tests.benchmark.fakes import run_of, suite

    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / CELLS).mkdir()
        write_run(run_of(suite()), folder)
        write_cell(cell([[closed_loop([3, 4])]]), folder)
        (result,) = (folder / CELLS).iterdir()
        return (folder / "run.json").read_bytes(), result.read_bytes()


@cache
def quantized_files() -> tuple[Mapping[str, bytes], Any]:
    """The files of a quantized network, and what it is lowered to."""
    from quantkit.bundle.quantization import write_quantized
    from quantkit.lowering.mxnet_int8 import int8_graph
    from tests.lowering.networks import quantized

    network = quantized("v1")
    with scratch_folder() as folder:
        write_quantized(network, folder)
        return {path.name: path.read_bytes() for path in folder.iterdir()}, int8_graph(network)
