"""Accuracy of trained networks: FP32 unfused and fused, quantkit's INT8 by each method and preset, stock MXNet's INT8.

    QUANTKIT_REAL_DATA=DATA python benchmarks/accuracy.py --out benchmarks/results/accuracy

prints one table and writes it with the raw outputs' figures as Markdown and JSON. All rows of a network
see the same images, preprocessed once. Rows of a method alone recover nothing; those of a preset calibrate with
the default method. Seconds are those of recovery.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Optional

import numpy as np

from quantkit import pipeline
from quantkit.data.batches import batches
from quantkit.data.preprocess import Preprocess
from quantkit.data.samples import take
from quantkit.data.sources import open_samples
from quantkit.emission.mxnet_int8 import int8_graph
from quantkit.engine.compat import load_mxnet
from quantkit.engine.stock import stock_int8_outputs
from quantkit.engine.stream import outputs_of
from quantkit.errors import UserError
from quantkit.evaluation.accuracy import accuracy
from quantkit.evaluation.agreement import agreement
from quantkit.host.cpu import read_cpu
from quantkit.models.load import load_model

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_BATCH = 10


@dataclass(frozen=True)
class Row:
    """One network in one form. Shares are in percent; ``changed`` counts predictions that differ from FP32's."""

    network: str
    form: str
    calibration_samples: Optional[int]
    images: int
    top1: float
    top5: float
    agreement: float
    changed: int
    cosine: float
    seconds: Optional[float] = None


def main() -> None:
    """Run the suite named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=Path, default=Path(__file__).with_suffix(".toml"))
    parser.add_argument("--out", type=Path, help="write OUT.md and OUT.json")
    parser.add_argument("--network", action="append", help="only networks whose name contains this")
    options = parser.parse_args()
    root = Path(os.environ.get("QUANTKIT_REAL_DATA", "../shared/data"))
    if not root.is_dir():
        sys.exit(f"no trained weights and images at {root}; set QUANTKIT_REAL_DATA")
    suite = tomllib.loads(options.suite.read_text())
    rows: list[Row] = []
    for network in suite["network"]:
        if not options.network or any(part in network["checkpoint"] for part in options.network):
            for row in _rows(network, suite, root):
                rows.append(row)
                print(_line(row), flush=True)
    if options.out is not None:
        command = "python benchmarks/accuracy.py" + "".join(f" --network {part}" for part in options.network or ())
        mxnet = load_mxnet().__version__
        host = {"cpu": read_cpu().model, "mxnet": mxnet, "numpy": np.__version__, "python": platform.python_version()}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        document = {"command": command, "host": host, "rows": [asdict(row) for row in rows]}
        options.out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(_markdown(rows, command, host))


def _rows(network: Mapping[str, Any], suite: Mapping[str, Any], root: Path) -> Iterator[Row]:
    name = Path(network["checkpoint"]).name
    data = suite["data"][network["data"]]
    fields = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in suite["preprocess"][network["preprocess"]].items()
    }
    preprocess = Preprocess(**{"resize": None, "crop": None, **fields})
    model = load_model(
        root / network["checkpoint"], input_shape=network["input_shape"], preprocess=preprocess, quiet=True
    )
    test = list(batches(open_samples(str(root / data["test"])), preprocess, model.input_shape, _BATCH))
    images = [batch.data for batch in test]
    labels = [batch.labels for batch in test]
    unfused = list(_first(outputs_of(model.graph, images, _BATCH)))

    def row(form: str, samples: Optional[int], outputs: Iterable[np.ndarray], seconds: Optional[float] = None) -> Row:
        found = list(outputs)
        right = accuracy(zip(found, labels))
        same = agreement(zip(unfused, found))
        changed = round(same.images * (1 - same.top1))
        shares = (100 * right.top1, 100 * right.top5, 100 * same.top1)
        return Row(name, form, samples, right.images, *shares, changed, same.cosine, seconds)

    yield row("FP32 unfused", None, unfused)
    calibration = open_samples(str(root / data["calibration"]))
    source = pipeline.fuse_model(model, calibration)
    yield row("FP32 fused", None, _first(outputs_of(source.graph, images, _BATCH)))
    for samples in data["calibration_samples"]:
        chosen = take(calibration, samples)
        for method in suite["methods"]:
            table = pipeline.calibrate(source, chosen, samples, method)
            graph = int8_graph(source.fused.graph, pipeline.plan(source, table))
            yield row(f"quantkit {method}", samples, _first(outputs_of(graph, images, _BATCH)))
        table = pipeline.calibrate(source, chosen, samples)
        planned = pipeline.plan(source, table)
        for preset in suite["presets"]:
            begin = time.perf_counter()
            recovered = pipeline.recover(source, table, planned, chosen, preset)
            seconds = time.perf_counter() - begin
            graph = int8_graph(recovered.graph, recovered.plan)
            yield row(f"quantkit preset {preset}", samples, _first(outputs_of(graph, images, _BATCH)), seconds)
        array = np.concatenate([batch.data for batch in batches(chosen, preprocess, model.input_shape, _BATCH)])
        for mode in suite["stock_modes"]:
            yield row(f"stock MXNet {mode}", samples, stock_int8_outputs(model.graph, array, mode, images, _BATCH))


def _first(outputs: Iterable[list[np.ndarray]]) -> Iterator[np.ndarray]:
    return (output[0] for output in outputs)


def _line(row: Row) -> str:
    samples = "" if row.calibration_samples is None else str(row.calibration_samples)
    return (
        f"| {row.network} | {row.form} | {samples} | {row.images} | {row.top1:.2f} | {row.top5:.2f} "
        f"| {row.agreement:.2f} | {row.cosine:.5f} | {'' if row.seconds is None else f'{row.seconds:.1f}'} |"
    )


def _markdown(rows: Iterable[Row], command: str, host: Mapping[str, str]) -> str:
    header = [
        f"`{command}`, " + ", ".join(f"{key} {value}" for key, value in host.items()),
        "",
        "| network | form | calibration images | test images | top-1 % | top-5 % | agreement with FP32 % | cosine "
        "| recovery, s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join(chain(header, map(_line, rows))) + "\n"


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
