"""INT8 networks on a processor without VNNI, which QEMU emulates: how far they are from FP32, and what helps.

    QUANTKIT_REAL_DATA=DATA python benchmarks/without_vnni.py --out benchmarks/results/without-vnni

The networks are those of trained.toml, quantized with the default preset and 60 calibration images. Each form runs in
its engine on this processor, which must have VNNI, and on an emulated Haswell, which has AVX2, on the first 100 test
images. Files are ONNX files with `--reduce-range none`, `auto` and `all`. The layers in FP32 are those that lose more
than 3 dB to sums in 16 bits, according to `quantkit analyze` on 40 other calibration images. Agreement is the share of
images with FP32's top-1, cosine the mean of that with FP32's outputs, deviation the largest difference between both
processors as a share of the largest output. The loss is that of agreement to the emulated processor, in points, with
its 95 % interval over images. Needs the extras onnx and onnxruntime, and qemu-user.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Optional

import numpy as np
from accuracy_rows import flat_outputs, prepared_model
from command_line import Document, arguments, data_root, rows_page, run, table, write_rows

import quantkit
from quantkit.data.batches import batches
from quantkit.data.samples import Samples, take
from quantkit.data.sources import load_data
from quantkit.errors import EngineError, UserError
from quantkit.evaluation.agreement import cosines, same_top1
from quantkit.evaluation.paired import Paired, paired
from quantkit.host.cpu import read_cpu
from quantkit.models.model import Model
from quantkit.units import counted

_CALIBRATION, _ANALYZED, _TEST, _BATCH = 60, 40, 100, 10
_EMULATOR = ("qemu-x86_64", "-cpu", "Haswell-v4")

# What a process runs: the network, the images and where the outputs go are its arguments.
_RUN = {
    "MXNet": "quantkit.load(sys.argv[1]).predict(data)",
    "ONNX Runtime": "numpy.concatenate([session.run(None, {session.get_inputs()[0].name: data[start : start + 10]})[0]"
    " for start in range(0, len(data), 10)])",
}
_BEFORE = {
    "MXNet": "import sys, numpy, quantkit",
    "ONNX Runtime": "import sys, numpy, onnxruntime\n"
    "session = onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])",
}

_COLUMNS = (
    "network", "engine", "form", "images", "with VNNI: agreement %, cosine", "AVX2: agreement %, cosine", "loss",
    "deviation",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One form of a network: agreement with FP32 (a share) and cosine with and without VNNI, and how these differ."""

    network: str
    engine: str
    form: str
    images: int
    agreement: Mapping[str, float]
    cosine: Mapping[str, float]
    loss: Paired
    deviation: float


def main() -> None:
    """Measure every network named on the command line."""
    options = arguments(__doc__).parse_args()
    if not any("VNNI" in each for each in read_cpu().isa) or shutil.which(_EMULATOR[0]) is None:
        raise UserError("this needs a processor with VNNI to compare with, and QEMU's emulator (package qemu-user)")
    root = data_root()
    suite = tomllib.loads(Path(__file__).with_name("trained.toml").read_text())
    command = "python benchmarks/without_vnni.py" + "".join(f" --network {part}" for part in options.network or ())
    print("\n".join(table(_COLUMNS)), flush=True)
    rows: list[Row] = []
    for network in suite["network"]:
        if options.network and not any(part in network["model"] for part in options.network):
            continue
        data = suite["data"][network["data"]]
        samples = [load_data(str(root / data[name])) for name in ("calibration", "test")]
        for row in _rows(prepared_model(network, suite, root), *samples):
            rows.append(row)
            print(_line(asdict(row)), flush=True)
        if options.out is not None:
            write_rows(options.out, command, rows, page)


def _rows(model: Model, calibration: Samples, test: Samples) -> Iterator[Row]:
    images = _inputs(model, test, _TEST)
    calibrated, analyzed = np.split(_inputs(model, take(calibration, _CALIBRATION + _ANALYZED)), [_CALIBRATION])
    exact = flat_outputs(model.graph, images)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "images.npy", images)
        for engine, form, network in _forms(model, calibrated, analyzed, folder):
            found = {"VNNI": _run(engine, network, folder), "AVX2": _run(engine, network, folder, _EMULATOR)}
            same = {key: same_top1(exact, each) for key, each in found.items()}
            agreement = {key: float(each.mean()) for key, each in same.items()}
            cosine = {key: float(cosines(exact, each).mean()) for key, each in found.items()}
            apart = float(np.abs(found["VNNI"] - found["AVX2"]).max() / np.abs(found["VNNI"]).max())
            yield Row(
                model.name, engine, form, len(images), agreement, cosine, paired(same["AVX2"], same["VNNI"]), apart
            )


def _inputs(model: Model, samples: Samples, count: Optional[int] = None) -> np.ndarray:
    stream = batches(samples, model.preprocess, model.input_shape, _BATCH, count)
    return np.concatenate([batch.data for batch in stream])


def _forms(model: Model, calibrated: np.ndarray, analyzed: np.ndarray, folder: Path) -> Iterator[tuple[str, str, Path]]:
    config = quantkit.QuantizationConfig(num_samples=len(calibrated))
    quantized = quantkit.quantize(model, calibrated, config)
    bundle = quantized.save(folder / "int8")
    yield "MXNet", "all INT8", bundle
    analysis = quantkit.analyze(bundle, analyzed, model)
    if lost := [layer.name for layer in analysis.layers if layer.needs_vnni]:
        mixed = quantkit.quantize(model, calibrated, replace(config, exclude=tuple(lost)))
        yield "MXNet", f"{counted(len(lost), 'layer')} in FP32", mixed.save(folder / "mixed")
    for reduce in ("none", "auto", "all"):
        quantkit.export_onnx(quantized, folder / f"{reduce}.onnx", reduce_range=reduce)
        yield "ONNX Runtime", f"file, `{reduce}`", folder / f"{reduce}.onnx"


def _run(engine: str, network: Path, folder: Path, emulator: tuple[str, ...] = ()) -> np.ndarray:
    """The first output for all images, float32 of shape (images, values)."""
    code = f"{_BEFORE[engine]}\ndata = numpy.load(sys.argv[2])\nnumpy.save(sys.argv[3], {_RUN[engine]})"
    call = [*emulator, sys.executable, "-c", code, str(network), str(folder / "images.npy"), str(folder / "found.npy")]
    ended = subprocess.run(call, check=False, capture_output=True, text=True)
    if ended.returncode:
        raise EngineError(f"{engine} failed{' on the emulated processor' * bool(emulator)}: {ended.stderr[-500:]}")
    found: np.ndarray = np.load(folder / "found.npy")
    return found.reshape(len(found), -1)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return rows_page(document, _COLUMNS, map(_line, document["rows"]))


def lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The table of the rows."""
    yield from table(_COLUMNS)
    yield from map(_line, rows)


def _line(row: Mapping[str, Any]) -> str:
    judged = [f"{100 * row['agreement'][key]:.0f}, {row['cosine'][key]:.4f}" for key in ("VNNI", "AVX2")]
    loss = "{:+.0f} [{:+.0f}, {:+.0f}]".format(*(100 * row["loss"][name] for name in ("difference", "low", "high")))
    cells = (row["network"], row["engine"], row["form"], row["images"], *judged, loss, f"{row['deviation']:.2g}")
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    run(main)
