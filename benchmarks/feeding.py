"""Whether decoding images keeps up with INT8 networks: images per second decoded, computed, and both together.

    python benchmarks/feeding.py --out benchmarks/results/feeding

This is `quantkit feed` for networks of several sizes. Rates are medians over rounds in turns, with the slowest and the
fastest round; OUT.json has every round. Random weights are as fast as trained ones. Nothing else may run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from command_line import Document, arguments, rows_page, run, table, write_rows

import quantkit
from quantkit.benchmark.workloads.feed import measure_feeding, quantized
from quantkit.data.sources import load_data
from quantkit.evaluation.feed import Feed

NETWORKS = ("resnet50_v1", "resnet18_v1", "mobilenet1.0", "squeezenet1.0", "mobilenet0.25")

_COLUMNS = (
    "network", "images", "batch", "decoding, 1 thread", "decoding, all threads", "INT8 network", "both together",
    "waiting for images, %", "verdict",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One network over images: the figures, what disturbed them, and the verdict."""

    network: str
    data: str
    feed: Feed
    verdict: str
    warnings: tuple[str, ...]


def main() -> None:
    """Measure every network named on the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--data", default="builtin", metavar="SPEC", help="images as `quantkit feed` reads them")
    parser.add_argument("--batch", type=int, default=16, help="images of a run")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each network")
    options = parser.parse_args()
    names = [name for name in NETWORKS if not options.network or any(part in name for part in options.network)]
    command = "python benchmarks/feeding.py" + "".join(f" --network {part}" for part in options.network or ())
    command += f" --data {options.data} --batch {options.batch} --seconds {options.seconds:g}"
    print("\n".join(table(_COLUMNS)), flush=True)
    found: list[Row] = []
    for name in names:
        found.append(measured(name, options.data, options.batch, options.seconds))
        # As in the document, so that the line is the page's.
        print(*_lines(json.loads(json.dumps([asdict(found[-1])]))), flush=True)
    if options.out is not None:
        write_rows(options.out, command, found, page)


def measured(name: str, data: str, batch: int, seconds: float) -> Row:
    """A network's INT8 form, calibrated with 10 of the images, over these images."""
    samples = load_data(data)
    model = quantkit.load_model(name, weights="random", quiet=True)
    network = quantized(model, samples, lambda line: None)
    feeding = measure_feeding(network, "quantized", samples, batch, seconds)
    return Row(name, feeding.data, feeding.feed, feeding.feed.verdict, feeding.warnings)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return rows_page(document, _COLUMNS, _lines(document["rows"]))


def _lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        feed = row["feed"]
        rates = (_rate(feed[key]["rounds"]) for key in ("one_worker", "all_workers", "network", "together"))
        verdict = row["verdict"] + (" (disturbed)" if row["warnings"] else "")
        cells = (row["network"], row["data"], str(feed["batch"]), *rates, f"{100 * feed['waiting']:.0f}", verdict)
        yield f"| {' | '.join(cells)} |"


def _rate(rounds: Sequence[float]) -> str:
    low, middle, high = (sorted(rounds)[place] for place in (0, len(rounds) // 2, -1))
    return f"{middle:.0f} ({low:.0f} to {high:.0f})"


if __name__ == "__main__":
    run(main)
