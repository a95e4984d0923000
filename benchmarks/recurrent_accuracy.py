"""What INT8 costs recurrent networks: quantkit, ONNX Runtime's dynamic quantization and NNCF on the same sequences.

    python benchmarks/recurrent_accuracy.py --out benchmarks/results/recurrent-accuracy

The trained networks that ship with quantkit: ``char_lm`` predicts the next character of held-out text, ``digits_lstm``
classifies held-out digits row by row. All networks see the same sequences, and all changes are paired with the FP32
network's outputs, with 95 % bootstrap intervals over sequences. The divergence is Kullback and Leibler's, of the
predicted probabilities from FP32's. Signal to noise compares outputs with FP32's; it also counts what all classes of a
step have in common, which changes no probability. Each row's divergence is paired with that of ONNX Runtime's dynamic
quantization, too. Of quantkit's ONNX files, each engine runs the form whose LSTM layers it computes in INT8; one row
has LSTM layers alone in INT8.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
from accuracy_peers import PeerResult, Peers, write_rows_beside_peers
from command_line import Document, rows_page, run

import quantkit as qk
from quantkit.backends.mxnet.stream import outputs_of
from quantkit.evaluation.divergence import divergences, log_probabilities
from quantkit.evaluation.paired import paired_means
from quantkit.evaluation.perplexity import cross_entropies, perplexity_change
from quantkit.ir.graph import Graph
from quantkit.lowering.onnx_lstm import LstmForm

SCRIPTS = {"char_lm": "train_char_lm.py", "digits_lstm": "train_digits_lstm.py"}
_CALIBRATION, _BATCH = 32, 8
CONFIGS = {
    "quantkit none": qk.QuantizationConfig(num_samples=_CALIBRATION, preset="none"),
    "quantkit balanced": qk.QuantizationConfig(num_samples=_CALIBRATION, preset="balanced"),
    "quantkit balanced, LSTM layers alone": qk.QuantizationConfig(
        num_samples=_CALIBRATION, preset="balanced", exclude=("FullyConnected",)
    ),
}
_MODELS = Path(__file__).parents[1] / "models"

# Of the peers' modes, those that take recurrent networks.
_DYNAMIC = "ONNX Runtime dynamic"
_MODES = (_DYNAMIC, "NNCF performance (default)", "NNCF mixed")

_FORMS: dict[str, LstmForm] = {"ONNX Runtime": "dynamic", "OpenVINO": "qdq"}

COLUMNS = (
    "network",
    "quantizer",
    "measure",
    "value",
    "change [95 %]",
    "divergence, millinats [95 %]",
    f"less that of {_DYNAMIC} [95 %]",
    "signal to noise, dB",
)


_INTERVALS = ("change", "divergence", "less_dynamic")


@dataclass(frozen=True)
class Row:
    """One network as one quantizer makes it.

    ``measure`` is ``perplexity`` or ``accuracy`` (from 0 to 1). ``change`` is in percent of FP32's perplexity or in
    points of accuracy, ``divergence`` the mean over steps in thousandths of a nat, and ``less_dynamic`` that less the
    divergence of ONNX Runtime's dynamic quantization, all with their intervals. FP32 has none of them, and where there
    is nothing to compare with, ``less_dynamic`` is None. ``failure`` says why there are no figures.
    """

    network: str
    quantizer: str
    measure: str
    value: Optional[float] = None
    change: Optional[tuple[float, float, float]] = None
    divergence: Optional[tuple[float, float, float]] = None
    less_dynamic: Optional[tuple[float, float, float]] = None
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

    @property
    def measure(self) -> str:
        return "perplexity" if self.labels.ndim == 2 else "accuracy"

    def row(self, quantizer: str, outputs: np.ndarray, dynamic: Optional[np.ndarray]) -> Row:
        """The figures of a network's outputs; ``dynamic`` are those of ONNX Runtime's dynamic quantization."""
        noise = float(((outputs.astype(np.float64) - self.exact) ** 2).sum())
        if self.measure == "perplexity":
            own, exact = (cross_entropies(each, self.labels, "logits") for each in (outputs, self.exact))
            change = perplexity_change(own, exact)
            value, interval = float(np.exp(own.mean())), (change.change, change.low, change.high)
        else:
            own, exact = ((each.argmax(axis=1) == self.labels).astype(float) for each in (outputs, self.exact))
            means = paired_means(own, exact)
            value, interval = float(own.mean()), (100 * means.difference, 100 * means.low, 100 * means.high)
        if not noise:
            return Row(self.name, quantizer, self.measure, value)
        decibels = 10 * float(np.log10((self.exact.astype(np.float64) ** 2).sum() / noise))
        divergence = self._divergences(outputs)
        less = None if dynamic is None else _mean_difference(divergence, self._divergences(dynamic))
        mean = _mean_difference(divergence, np.zeros_like(divergence))
        return Row(self.name, quantizer, self.measure, value, interval, mean, less, decibels)

    def _divergences(self, outputs: np.ndarray) -> np.ndarray:
        """The divergence of each sequence from FP32, in millinats."""
        classes = self.exact.shape[-1]
        exact, own = (log_probabilities(each.reshape(-1, classes)) for each in (self.exact, outputs))
        of_sequences: np.ndarray = 1000 * divergences(exact, own).reshape(len(self.exact), -1).mean(axis=1)
        return of_sequences


def _mean_difference(values: np.ndarray, reference: np.ndarray) -> tuple[float, float, float]:
    """The mean difference and its interval."""
    found = paired_means(values, reference)
    return found.difference, found.low, found.high


def main() -> None:
    """Measure the networks named on the command line."""
    write_rows_beside_peers("recurrent_accuracy", __doc__, tuple(SCRIPTS), rows, _line, page)


def rows(name: str, peers: Peers) -> Iterator[Row]:
    """FP32, what quantkit makes in MXNet and as ONNX files, and the peers."""
    task = task_of(name)
    outputs = dict(_outputs(task, peers))
    dynamic = outputs.get(_DYNAMIC)
    for quantizer, found in outputs.items():
        if isinstance(found, str):
            yield Row(task.name, quantizer, task.measure, failure=found)
        else:
            compared = None if quantizer == _DYNAMIC or isinstance(dynamic, str) else dynamic
            yield task.row(quantizer, found, compared)


def _outputs(task: Task, peers: Peers) -> Iterator[tuple[str, Union[np.ndarray, str]]]:
    """What each quantizer's network puts out for all sequences, or why it does not."""
    yield "FP32", task.exact
    for form, config in CONFIGS.items():
        quantized = qk.quantize(task.model, task.calibration, config)
        yield form, run_all(quantized.graph, task.test)
        for engine, lstm in _FORMS.items():
            for result in peers.own_file(quantized, task.test, lstm):
                if result.mode == f"{engine} FP32":
                    yield f"{form}, in {engine}", _of_peer(task, result)
    for result in peers.int8(task.model, task.calibration, task.test):
        if result.mode in _MODES:
            yield result.mode, _of_peer(task, result)


def _of_peer(task: Task, result: PeerResult) -> Union[np.ndarray, str]:
    return result.outputs if isinstance(result.outputs, str) else result.outputs[0].reshape(task.exact.shape)


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
    return rows_page(document, COLUMNS, lines(document["rows"]))


def lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The rows of the page's table."""
    return (_line(_row(each)) for each in rows)


def _row(values: dict[str, Any]) -> Row:
    intervals = {name: None if values[name] is None else tuple(values[name]) for name in _INTERVALS}
    return Row(**{**values, **intervals})


def _line(row: Row) -> str:
    if row.value is None:
        return f"| {row.network} | {row.quantizer} | {row.measure} | failed: {row.failure[:80]} | | | | |"
    value = f"{row.value:.4f}" if row.measure == "perplexity" else f"{100 * row.value:.2f} %"
    unit = "%" if row.measure == "perplexity" else "points"
    change = "" if row.change is None else "{:+.2f} {unit} [{:+.2f}, {:+.2f}]".format(*row.change, unit=unit)
    divergence = "" if row.divergence is None else "{:.2f} [{:.2f}, {:.2f}]".format(*row.divergence)
    less = "" if row.less_dynamic is None else "{:+.2f} [{:+.2f}, {:+.2f}]".format(*row.less_dynamic)
    decibels = "" if row.decibels is None else f"{row.decibels:.1f}"
    cells = (row.network, row.quantizer, row.measure, value, change, divergence, less, decibels)
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    run(main)
