"""What the time of networks is spent on in MXNet: kernels, quantizing, reorders, copies, overhead, waiting.

    python benchmarks/time_spent.py --out benchmarks/results/time-spent

The classes are those of `quantkit profile`; each row is the mean of a few seconds of profiled runs. The networks are
those of the suites, with random weights, which are as fast as trained ones: as loaded, fused by quantkit, and in INT8.
OUT.json has all times in ms. Nothing else may run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from command_line import Document, arguments, rows_page, run, table, write_rows

import quantkit
from quantkit.diagnosis.profile.measure import profile_network
from quantkit.diagnosis.profile.profile import Spent

NETWORKS = (
    "resnet18_v1", "resnet50_v1", "mobilenet1.0", "mobilenetv2_1.0", "resnet101_v1", "squeezenet1.0", "inceptionv3",
    "resnet152_v2",
)  # fmt: skip

_CLASSES = {
    "int8": "INT8 kernels",
    "floating": "FP32 kernels",
    "conversions": "quantize, dequantize",
    "reorders": "reorders",
    "copies": "copies",
    "around": "around kernels",
    "own": "MXNet's own operators",
    "others": "no layer's",
    "between": "scheduling, waiting",
}
_NOTE = (
    "Shares are of the time of one run under the profiler. Kernels are oneDNN's. *Around kernels* is what operators "
    "that use them take outside of them; *MXNet's own operators* use none; *no layer's* are operators that belong to "
    "no node of the network; *scheduling, waiting* is the time outside of operators. *Of peak* is the time that all "
    "layers would take at the speed that this machine reaches in their precision, as a share of the latency."
)

_COLUMNS = ("network", "form", "batch", "latency, ms", *(f"{name}, %" for name in _CLASSES.values()), "of peak, %")


@dataclass(frozen=True)
class Row:
    """One network in one form: its latency without the profiler in ms, and what the profiled time was spent on.

    ``of_peak`` is the time that all layers would take at the measured peak of their precision, as a share of the
    latency.
    """

    network: str
    form: str
    batch: int
    latency: float
    spent: Spent
    of_peak: float | None


def main() -> None:
    """Profile every network named on the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--batch", type=int, action="append", help="images of a run; may be repeated  [default: 1, 16]")
    options = parser.parse_args()
    names = [name for name in NETWORKS if not options.network or any(part in name for part in options.network)]
    batches = options.batch or [1, 16]
    command = "python benchmarks/time_spent.py" + "".join(f" --network {part}" for part in options.network or ())
    command += "".join(f" --batch {batch}" for batch in options.batch or ())
    print("\n".join(table(_COLUMNS)), flush=True)
    found: list[Row] = []
    for row in (row for name in names for row in rows(name, batches)):
        found.append(row)
        # As in the document, so that the line is the page's.
        print(*_lines(json.loads(json.dumps([asdict(row)]))), flush=True)
    if options.out is not None:
        write_rows(options.out, command, found, page)


def rows(name: str, batches: Sequence[int]) -> Iterator[Row]:
    """All forms of a network at all batch sizes."""
    model = quantkit.load_model(name, weights="random", quiet=True)
    fused = quantkit.fuse(model)
    quantized = quantkit.quantize(model, config=quantkit.QuantizationConfig(num_samples=10, preset="none"))
    forms = {"as loaded": model.graph, "fused": fused.graph, "INT8": quantized.graph}
    for form, graph in forms.items():
        for batch in batches:
            profile = profile_network(replace(model, graph=graph), batch).profile
            yield Row(name, form, batch, profile.latency, profile.spent, profile.of_peak)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return rows_page(document, _COLUMNS, _lines(document["rows"]), _NOTE)


def _lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        whole = sum(row["spent"].values())
        shares = (f"{100 * row['spent'][key] / whole:.1f}" for key in _CLASSES)
        peak = "" if row["of_peak"] is None else f"{100 * row['of_peak']:.0f}"
        cells = (row["network"], row["form"], str(row["batch"]), f"{row['latency']:.2f}", *shares, peak)
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    run(main)
