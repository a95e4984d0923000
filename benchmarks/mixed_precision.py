"""What mixed precision adds: INT8 networks with some layers returned to FP32, judged on images not searched with.

    QUANTKIT_REAL_DATA=DATA python benchmarks/mixed_precision.py --out benchmarks/results/mixed-precision

The networks are those of trained.toml, quantized with the default preset. The goal is an agreement with FP32 on every
second test image; what is printed of agreement is that on the other half, which the search has not seen. Latencies are
those of the search, at batch 1, measured in turns; OUT.json has them and the layers. Nothing that earlier searches
measured is used.
"""

from __future__ import annotations

import os
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
from accuracy_rows import BATCH, flat_outputs, prepared_model
from command_line import Document, arguments, data_root, rows_page, run, table, write_rows

import quantkit
from quantkit.data.batches import batches
from quantkit.data.samples import take
from quantkit.data.sources import load_data
from quantkit.evaluation.agreement import cosines, same_top1
from quantkit.evaluation.paired import Paired, paired
from quantkit.ir.graph import Graph
from quantkit.mixed_precision.search import SearchResult
from quantkit.quantization.goal import Goal

_COLUMNS = (
    "network", "goal", "layers in FP32", "met", "unseen images", "agreement all INT8 %, cosine",
    "agreement mixed %, cosine", "difference", "verdict", "speed-up all INT8", "speed-up mixed", "minutes",
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """The outcome for one network; agreements (shares) and cosines are those on the unseen half."""

    network: str
    max_drop: float
    met: bool
    layers: tuple[str, ...]
    of: int
    images: int
    agreement: Mapping[str, float]
    cosine: Mapping[str, float]
    difference: Paired
    speedup: Mapping[str, float]
    milliseconds: Mapping[str, Mapping[str, float]]
    minutes: float


def main() -> None:
    """Search for every network named on the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--max-drop", type=float, default=1.0, help="points of agreement that may be lost")
    parser.add_argument("--minutes", type=float, default=5.0, help="of search for each network")
    options = parser.parse_args()
    command = "python benchmarks/mixed_precision.py" + "".join(f" --network {part}" for part in options.network or ())
    command += f" --max-drop {options.max_drop:g} --minutes {options.minutes:g}"
    found: list[Found] = []
    print("\n".join(table(_COLUMNS)), flush=True)
    with tempfile.TemporaryDirectory() as home:
        os.environ["QUANTKIT_HOME"] = home
        for each in _found_for(options.network, Goal(max_drop=options.max_drop), options.minutes):
            found.append(each)
            print(_line(asdict(each)), flush=True)
            if options.out is not None:
                write_rows(options.out, command, found, page)


def _found_for(names: Optional[Sequence[str]], goal: Goal, minutes: float) -> Iterator[Found]:
    root = data_root()
    suite = tomllib.loads(Path(__file__).with_name("trained.toml").read_text())
    for network in suite["network"]:
        if not names or any(part in network["model"] for part in names):
            yield _searched(network, suite, root, goal, minutes)


def _searched(network: Mapping[str, Any], suite: Mapping[str, Any], root: Path, goal: Goal, minutes: float) -> Found:
    model, data = prepared_model(network, suite, root), suite["data"][network["data"]]
    test = batches(load_data(str(root / data["test"])), model.preprocess, model.input_shape, BATCH)
    images = np.concatenate([batch.data for batch in test])
    count = max(data["calibration_samples"])
    chosen = take(load_data(str(root / data["calibration"])), count)
    source = quantkit.fuse(model, chosen)
    table = quantkit.calibrate(source, chosen, count)
    begin = time.perf_counter()
    planned = quantkit.plan(source, table)
    outcome = quantkit.search_mixed_precision(source, table, planned, goal, images[::2], chosen, minutes=minutes)
    spent = (time.perf_counter() - begin) / 60
    adjusted = quantkit.apply_algorithms(source, table, quantkit.plan(source, table), chosen)
    graphs = {"int8": quantkit.lower(source, table, adjusted).graph, "mixed": outcome.network.graph}
    return _found(outcome, goal, model.graph, graphs, images[1::2], spent, len(adjusted.network.int8_layers))


def _found(
    outcome: SearchResult,
    goal: Goal,
    fp32: Graph,
    graphs: Mapping[str, Graph],
    unseen: np.ndarray,
    minutes: float,
    layers: int,
) -> Found:
    reference = flat_outputs(fp32, unseen)
    outputs = {name: flat_outputs(graph, unseen) for name, graph in graphs.items()}
    same = {name: same_top1(reference, output) for name, output in outputs.items()}
    checks = {"int8": outcome.int8, "mixed": outcome.chosen}
    return Found(
        network=outcome.network.source.model.name,
        max_drop=goal.max_drop or 0.0,
        met=outcome.met,
        layers=tuple(kept.layer for kept in outcome.layers),
        of=layers,
        images=len(unseen),
        agreement={name: float(each.mean()) for name, each in same.items()},
        cosine={name: float(cosines(reference, output).mean()) for name, output in outputs.items()},
        difference=paired(same["mixed"], same["int8"]),
        speedup={name: check.speedup for name, check in checks.items()},
        milliseconds={name: check.milliseconds for name, check in checks.items()},
        minutes=minutes,
    )


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return rows_page(document, _COLUMNS, map(_line, document["rows"]))


def judged(row: Mapping[str, Any], form: str) -> str:
    """Agreement in %, and cosine, of ``int8`` or ``mixed``."""
    return f"{100 * row['agreement'][form]:.2f}, {row['cosine'][form]:.5f}"


def difference(row: Mapping[str, Any]) -> str:
    """How much more often the mixed network agrees with FP32, in points with the 95 % interval."""
    return "{:+.2f} [{:+.2f}, {:+.2f}]".format(
        *(100 * row["difference"][name] for name in ("difference", "low", "high"))
    )


def verdict(row: Mapping[str, Any]) -> str:
    """Whether that can be told from chance."""
    return Paired(**row["difference"]).verdict


def _line(row: Mapping[str, Any]) -> str:
    cells = [
        row["network"], f"at least {100 - row['max_drop']:g} %", f"{len(row['layers'])} of {row['of']}",
        "yes" if row["met"] else "no", str(row["images"]), judged(row, "int8"), judged(row, "mixed"), difference(row),
        verdict(row), f"{row['speedup']['int8']:.2f}x", f"{row['speedup']['mixed']:.2f}x", f"{row['minutes']:.1f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    run(main)
