"""``quantkit calibrate``: the ranges of a network's tensors, written to a file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quantkit.cli.calibration import tell_default_samples
from quantkit.cli.cluster import OnCluster, executor_of
from quantkit.cli.option_groups import Calibrating, Loading, Preprocessing
from quantkit.cli.options import Verb, collected, force_option, output_options
from quantkit.cli.targets import check_file_target, check_not_bundle
from quantkit.cli.terminal import Terminal
from quantkit.units import counted

if TYPE_CHECKING:
    from quantkit.calibration.table import CalibrationTable
    from quantkit.cli.console import RenderableType
    from quantkit.data.left_out import LeftOut
    from quantkit.data.sample_noun import SampleNoun

_SHOWN = 3


@click.command(
    cls=Verb,
    examples=(
        "quantkit calibrate resnet50 --calib 100 --calib-data photos/ --out table.json",
        "quantkit calibrate resnet50 --method percentile:99.9 --out table.json",
        "quantkit calibrate resnet50 --calib 5000 --calib-data /shared/photos --cluster tcp://node0:8786 --out t.json",
    ),
)
@click.argument("model")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", required=True, help="The table to write.")
@collected("calibration", Calibrating)
@collected("on_cluster", OnCluster)
@collected("loading", Loading)
@collected("preprocessing", Preprocessing)
@force_option
@output_options
def calibrate(
    terminal: Terminal,
    model: str,
    out: Path,
    calibration: Calibrating,
    on_cluster: OnCluster,
    loading: Loading,
    preprocessing: Preprocessing,
    force: bool,
) -> None:
    """Measure the ranges of a network's tensors and save them as a table.

    `quantkit quantize MODEL --calib-table FILE` uses the table instead of calibrating again. A table holds only for
    the same network with the same weights.
    """
    check_not_bundle(model)
    check_file_target(out, force)
    from quantkit.calibration.methods import DEFAULT_METHOD, observer
    from quantkit.calibration.table import write_table
    from quantkit.cli.networks import check_count, load
    from quantkit.data.sample_noun import sample_noun
    from quantkit.fusion.fused_model import fuse_model
    from quantkit.models.dataset import dataset
    from quantkit.quantization.calibrate import calibrate as calibrated

    data, calib, method = calibration.calib_data or "builtin", calibration.calib, calibration.method or DEFAULT_METHOD
    observer(method)
    check_count(data, calib)
    loaded = load(terminal, model, loading, preprocessing)
    terminal.stage("fusing operators and comparing with the original")
    images = dataset(loaded, data, calibration.skip_bad)
    tell_default_samples(terminal, images.name)
    fused = fuse_model(loaded, images)
    with executor_of(terminal, on_cluster) as executor:
        table = calibrated(fused, images, calib, method, terminal.progress, executor)
        with terminal.work.writing(out):
            write_table(table, out)
    result = _result(loaded.name, table, out, images.left_out)
    terminal.show(result, *_tables(result, sample_noun(loaded.input_shape)))
    terminal.warn_of_left_out(images.left_out)


def _result(model: str, table: CalibrationTable, out: Path, left_out: Iterable[LeftOut]) -> dict[str, Any]:
    from quantkit.data.left_out import documents

    by_width = sorted(table.ranges.items(), key=lambda item: item[1].high - item[1].low)
    listed = [{"tensor": name, "low": bounds.low, "high": bounds.high} for name, bounds in by_width]
    return {
        "model": model,
        "table": str(out),
        "method": table.method,
        "samples": table.samples,
        "data": table.data_name,
        "left_out": documents(left_out),
        "tensors": len(listed),
        "widest": listed[::-1][:_SHOWN],
        "narrowest": listed[:_SHOWN],
    }


def _tables(result: dict[str, Any], noun: SampleNoun) -> list[RenderableType]:
    from rich.text import Text

    from quantkit.cli.summary import grid_of

    rows = [
        ("tensors", str(result["tensors"])),
        ("method", f"{result['method']}, {counted(result['samples'], noun)} of {result['data']}"),
    ]
    for label in ("widest", "narrowest"):
        rows += [
            (label if index == 0 else "", f"{entry['tensor']}: {entry['low']:.4g} to {entry['high']:.4g}")
            for index, entry in enumerate(result[label])
        ]
    return [Text(f"\nranges of {result['model']}: {result['table']}", "bold"), grid_of(rows)]
