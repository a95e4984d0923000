"""What INT8 costs recurrent networks: quantkit, ONNX Runtime's dynamic quantization and NNCF on the same sequences.

    python benchmarks/recurrent_accuracy.py --out benchmarks/results/recurrent-accuracy

The trained networks that ship with quantkit: ``char_lm`` predicts the next character of held-out text, ``digits_lstm``
classifies held-out digits row by row. All networks see the same sequences, and all changes are paired with the FP32
network's outputs, with 95 % bootstrap intervals over sequences. Signal to noise compares outputs with FP32's.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
from accuracy_peers import Peers
from command_line import Document, arguments, host_facts, rows_page, run, write_results

import quantkit as qk
from quantkit.backends.mxnet.stream import outputs_of
from quantkit.evaluation.paired import paired_means
from quantkit.evaluation.perplexity import cross_entropies, perplexity_change
from quantkit.ir.graph import Graph
from quantkit.quantization.ptq_config import PresetName

SCRIPTS = {"char_lm": "train_char_lm.py", "digits_lstm": "train_digits_lstm.py"}
PRESETS: tuple[PresetName, ...] = ("none", "balanced")
_CALIBRATION, _BATCH = 32, 8
_MODELS = Path(__file__).parents[1] / "models"

# Of the peers' modes, those that take recurrent networks.
_MODES = ("ONNX Runtime dynamic", "NNCF performance (default)", "NNCF mixed")

_COLUMNS = ("network", "quantizer", "measure", "value", "change [95 %]", "signal to noise, dB")


@dataclass(frozen=True)
class Row:
    """One network as one quantizer makes it.

    ``measure`` is ``perplexity`` or ``accuracy`` (from 0 to 1). ``change`` is in percent of FP32's perplexity or in
    points of accuracy, with its interval; of FP32 there is none. ``failure`` says why there are no figures.
    """

    network: str
    quantizer: str
    measure: str
    value: Optional[float] = None
    change: Optional[tuple[float, float, float]] = None
    decibels: Optional[float] = None
    failure: str = ""


@dataclass(frozen=True, eq=False)
class Task:
    """A network with the sequences that it is calibrated and judged with, and FP32's outputs for the latter."""

    name: str
    model: qk.Model
    calibration: np.ndarray
    test: np.ndarray
    labels: np.ndarray
    exact: np.ndarray

    def row(self, quantizer: str, outputs: np.ndarray) -> Row:
        """The figures of a network's outputs."""
        noise = float(((outputs.astype(np.float64) - self.exact) ** 2).sum())
        decibels = 10 * float(np.log10((self.exact.astype(np.float64) ** 2).sum() / noise)) if noise else None
        if self.labels.ndim == 2:
            own, exact = (cross_entropies(each, self.labels, "logits") for each in (outputs, self.exact))
            change = perplexity_change(own, exact)
            value, interval = float(np.exp(own.mean())), (change.change, change.low, change.high)
        else:
            own, exact = ((each.argmax(axis=1) == self.labels).astype(float) for each in (outputs, self.exact))
            means = paired_means(own, exact)
            value, interval = float(own.mean()), (100 * means.difference, 100 * means.low, 100 * means.high)
        measure = "perplexity" if self.labels.ndim == 2 else "accuracy"
        return Row(self.name, quantizer, measure, value, interval if noise else None, decibels)


def main() -> None:
    """Measure the networks named on the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--peers", type=Path, metavar="PYTHON", help="the peers' interpreter, not .venv-peers")
    options = parser.parse_args()
    names = [name for name in SCRIPTS if not options.network or any(part in name for part in options.network)]
    peers, found = Peers(options.peers), []
    for row in (row for name in names for row in rows(name, peers)):
        found.append(row)
        print(_line(row), flush=True)
    if options.out is not None:
        parts = "".join(f" --network {part}" for part in options.network or ())
        figures = {"peers": peers.versions, "rows": [asdict(row) for row in found]}
        write_results(options.out, f"python benchmarks/recurrent_accuracy.py{parts}", host_facts(), figures, page)


def rows(name: str, peers: Peers) -> Iterator[Row]:
    """FP32, quantkit's presets, and the peers."""
    task = task_of(name)
    yield task.row("FP32", task.exact)
    for preset in PRESETS:
        config = qk.QuantizationConfig(num_samples=_CALIBRATION, preset=preset)
        quantized = qk.quantize(task.model, task.calibration, config)
        yield task.row(f"quantkit {preset}", run_all(quantized.graph, task.test))
    for result in peers.int8(task.model, task.calibration, task.test):
        if result.mode not in _MODES:
            continue
        if isinstance(result.outputs, str):
            measure = "perplexity" if task.labels.ndim == 2 else "accuracy"
            yield Row(name, result.mode, measure, failure=result.outputs)
        else:
            yield task.row(result.mode, result.outputs.reshape(task.exact.shape))


def task_of(name: str) -> Task:
    """A shipped network with the data that its training script writes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(_MODELS / SCRIPTS[name]), "--data-out", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with np.load(Path(folder) / f"{name}-train.npz") as train, np.load(Path(folder) / f"{name}-test.npz") as test:
            calibration, sequences, labels = train["x"][:_CALIBRATION], test["x"], test["y"]
    model = qk.load_model(name)
    return Task(name, model, calibration, sequences, labels, run_all(model.graph, sequences))


def run_all(graph: Graph, sequences: np.ndarray) -> np.ndarray:
    """A network's first output for all sequences."""
    parts = (sequences[start : start + _BATCH].astype(np.float32) for start in range(0, len(sequences), _BATCH))
    return np.concatenate([outputs[0] for outputs in outputs_of(graph, parts, _BATCH)])


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return rows_page(document, _COLUMNS, (_line(_row(each)) for each in document["rows"]))


def _row(values: dict[str, Any]) -> Row:
    change = values["change"]
    return Row(**{**values, "change": None if change is None else tuple(change)})


def _line(row: Row) -> str:
    if row.value is None:
        return f"| {row.network} | {row.quantizer} | {row.measure} | failed: {row.failure[:80]} | | |"
    value = f"{row.value:.4f}" if row.measure == "perplexity" else f"{100 * row.value:.2f} %"
    unit = "%" if row.measure == "perplexity" else "points"
    change = "" if row.change is None else "{:+.2f} {unit} [{:+.2f}, {:+.2f}]".format(*row.change, unit=unit)
    decibels = "" if row.decibels is None else f"{row.decibels:.1f}"
    return f"| {row.network} | {row.quantizer} | {row.measure} | {value} | {change} | {decibels} |"


if __name__ == "__main__":
    run(main)
