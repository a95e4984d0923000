"""What calibration data are worth: the default samples, and the tables that ship, beside real images.

    QUANTKIT_REAL_DATA=DATA python benchmarks/calibration_data.py --out benchmarks/results/calibration-data

The networks are those of trained.toml. Each row tells what the ranges are from, and which images the preset's
algorithms look at, with their number, mirrored ones included; the test images are the same for all rows of a network.
The difference is the row's agreement with FP32 less that of 100 real images. OUT.json has for every row the numbers of
the test images about which INT8 and FP32 disagree.

With a table that ships and the default samples, ``apply_algorithms`` shifts no channels. The row "channels shifted
too" shows what that would do.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Optional

import numpy as np
from accuracy_rows import BATCH, flat_outputs, prepared_model
from command_line import Document, arguments, data_root, rows_page, run, table, write_rows

import quantkit
from quantkit.calibration.table import CalibrationTable
from quantkit.data.batches import batches
from quantkit.data.dataset import CalibrationDataset
from quantkit.data.sources import load_data
from quantkit.evaluation.accuracy import hits
from quantkit.evaluation.agreement import cosines, same_top1
from quantkit.evaluation.paired import Paired, paired
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.models.dataset import dataset
from quantkit.models.load import load_model
from quantkit.models.model import Model
from quantkit.quantization.calibrate import shipped_recipe
from quantkit.quantization.ptq_config import DEFAULT_PRESET, PresetName

_REAL = 100
_DEFAULT = (10, 32)
_COLUMNS = (
    "network", "ranges from", "algorithms look at", "preset", "test images", "top-1 %", "agreement %", "cosine",
    "difference", "verdict",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One INT8 form of a network on its test images: shares from 0 to 1, and the numbers of those that ``differ``."""

    network: str
    ranges: str
    algorithms: str
    preset: str
    images: int
    top1: float
    agreement: float
    cosine: float
    less_real: Optional[Paired]
    differ: tuple[int, ...]


@dataclass(frozen=True)
class _Form:
    """How an INT8 form is made; ``algorithms`` are the images that the preset looks at, ``named`` in words."""

    ranges: str
    table: CalibrationTable
    algorithms: CalibrationDataset
    named: str
    preset: PresetName = DEFAULT_PRESET


def main() -> None:
    """Measure every network named on the command line."""
    options = arguments(__doc__).parse_args()
    root = data_root()
    suite = tomllib.loads(Path(__file__).with_name("trained.toml").read_text())
    command = "python benchmarks/calibration_data.py" + "".join(f" --network {part}" for part in options.network or ())
    found: list[Row] = []
    print("\n".join(table(_COLUMNS)), flush=True)
    for network in suite["network"]:
        if not options.network or any(part in network["model"] for part in options.network):
            for row in _rows(network, suite, root):
                found.append(row)
                print(_line(asdict(row)), flush=True)
                if options.out is not None:
                    write_rows(options.out, command, found, page)


def _rows(network: Mapping[str, Any], suite: Mapping[str, Any], root: Path) -> Iterator[Row]:
    model, data = _model(network, suite, root), suite["data"][network["data"]]
    test = list(batches(load_data(str(root / data["test"])), model.preprocess, model.input_shape, BATCH))
    labels = np.concatenate([batch.labels for batch in test if batch.labels is not None])
    inputs = np.concatenate([batch.data for batch in test])
    real = dataset(model, str(root / data["calibration"]))
    source = quantkit.fuse(model, real)
    fp32 = flat_outputs(model.graph, inputs)
    reference: Optional[np.ndarray] = None
    for form in _forms(source, real):
        planned = quantkit.plan(source, form.table)
        adjusted = quantkit.apply_algorithms(source, form.table, planned, form.algorithms, form.preset)
        outputs = flat_outputs(int8_graph(adjusted.network), inputs)
        same = same_top1(fp32, outputs)
        yield Row(
            network=model.name,
            ranges=form.ranges,
            algorithms=f"{form.named}, {adjusted.algorithms.num_samples}" if adjusted.algorithms.works else "none",
            preset=form.preset,
            images=len(inputs),
            top1=float(hits(outputs, labels).mean()),
            agreement=float(same.mean()),
            cosine=float(cosines(fp32, outputs).mean()),
            less_real=None if reference is None else paired(same, reference),
            differ=tuple(np.flatnonzero(~same).tolist()),
        )
        reference = same if reference is None else reference


def _model(network: Mapping[str, Any], suite: Mapping[str, Any], root: Path) -> Model:
    """A network of the suite as ``quantize NAME`` loads it, but for the suite's weights and preprocessing."""
    model = prepared_model(network, suite, root)
    preprocess = model.preprocess
    if preprocess is None or preprocess.crop is not None:
        return model
    # Only so does it take photographs, too.
    side = model.input_shape[1]
    weights = root / f"{network['model']}-0000.params"
    sized = replace(preprocess, resize=side, crop=side)
    return load_model(model.name, weights=weights, preprocess=sized, quiet=True)


def _forms(source: quantkit.FusedModel, real: CalibrationDataset) -> Iterator[_Form]:
    default = dataset(source.model, "builtin")
    yield _Form(f"{_REAL} real images", quantkit.calibrate(source, real, _REAL), real, "real")
    for count in _DEFAULT:
        table = quantkit.calibrate(source, default, count)
        yield _Form(f"{count} default samples", table, default, "default samples")
    recipe = shipped_recipe(source)
    if recipe is not None:
        shipped, table = f"table that ships, {recipe.table.samples} images", recipe.table
        yield _Form(shipped, table, default, "", "none")
        yield _Form(shipped, table, default, "default samples", "fast")
        yield _Form(shipped, table, default, "default samples")
        # As arrays, so that nobody knows them for the default samples.
        arrays = np.concatenate([batch.data for batch in default.subset(table.samples).batches(BATCH)])
        unknown = dataset(source.model, arrays)
        yield _Form(shipped, table, unknown, "default samples, channels shifted too")
        yield _Form(shipped, table, real, "real")


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return rows_page(document, _COLUMNS, map(_line, document["rows"]))


def _line(row: Mapping[str, Any]) -> str:
    less = row["less_real"]
    if less is None:
        compared = ["", ""]
    else:
        spread = " [{:+.2f}, {:+.2f}]".format(*(100 * less[name] for name in ("low", "high")))
        compared = [f"{100 * less['difference']:+.2f}{spread}", Paired(**less).verdict]
    cells = [
        row["network"], row["ranges"], row["algorithms"], row["preset"], str(row["images"]),
        f"{100 * row['top1']:.2f}", f"{100 * row['agreement']:.2f}", f"{row['cosine']:.5f}", *compared,
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    run(main)
