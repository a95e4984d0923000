"""``quantkit analyze``: why an INT8 network differs from FP32, layer by layer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Union

import click

from quantkit.cli.cluster import OnCluster, executor_of
from quantkit.cli.option_groups import Loading, Preprocessing
from quantkit.cli.options import Verb, collected, force_option, output_options
from quantkit.cli.targets import check_target
from quantkit.cli.terminal import Terminal
from quantkit.errors import UserError
from quantkit.extras import require
from quantkit.files.bundles import is_bundle
from quantkit.units import counted

if TYPE_CHECKING:
    from quantkit.cli.console import RenderableType
    from quantkit.diagnosis.layers.analysis import Analysis, LayerError
    from quantkit.models.model import Model
    from quantkit.models.states_as_inputs import StatesKind

_TOP = 12


@click.command(
    cls=Verb,
    examples=(
        "quantkit analyze resnet50_v1-int8 --data photos/",
        "quantkit analyze net-int8 --data photos:test --reference my/net.toml --num-samples 1000 --out why",
        "quantkit analyze resnet50_v1-int8 --data photos/ --weights resnet50.params",
        "quantkit analyze digits_resnet20_v2-int8 --data digits:test --all",
    ),
)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--data",
    required=True,
    metavar="SPEC",
    help="Samples: a folder, FOLDER:SPLIT, COCO .json, .npz, .npy, .rec, digits:test.",
)
@click.option("--reference", metavar="MODEL", help="The FP32 network.  [default: the one that the bundle names]")
@click.option("--weights", metavar="FILE", help="The FP32 network's weights, if its name alone does not find them.")
@click.option(
    "--layout",
    metavar="NTC|NT|TNC|TN",
    help="The layout of sequences: TNC or TN if the FP32 network reads (steps, batch, ...) and no card says so.",
)
@click.option(
    "--num-samples",
    type=click.IntRange(min=1),
    metavar="N",
    help="Use the first N samples only.  [default: 100, or all if there are fewer]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The folder to write.  [default: BUNDLE-analysis in the current folder]",
)
@click.option(
    "--all", "everything", is_flag=True, help=f"Show all layers, not only the {_TOP} that add the most error."
)
@force_option
@collected("on_cluster", OnCluster)
@output_options
def analyze(
    terminal: Terminal,
    bundle: Path,
    data: str,
    reference: Optional[str],
    weights: Optional[str],
    layout: Optional[str],
    num_samples: Optional[int],
    out: Optional[Path],
    everything: bool,
    force: bool,
    on_cluster: OnCluster,
) -> None:
    """Say why an INT8 network differs from FP32, layer by layer.

    Both networks run side by side over the samples, the INT8 one in exact integers. The analysis shows for each layer
    the error in the network, what the layer itself adds, and how much of that is due to weights and how much to
    tensors; for each tensor, how its values fit into 8 bits; and whether the calibration holds for these samples.
    It writes DIR/index.html, a page that needs no network connection, and DIR/analysis.json.
    """
    if not is_bundle(bundle):
        raise UserError(f"{bundle} is not a bundle; give the folder that `quantkit quantize` wrote")
    out = out or Path(f"{bundle.resolve().name}-analysis")
    from quantkit.bundle import read_bundle
    from quantkit.cli.networks import load
    from quantkit.diagnosis.layers.analyze import analyze as analyzed
    from quantkit.diagnosis.layers.page import analysis_json
    from quantkit.diagnosis.layers.write import ANALYSIS, PAGE, write_analysis

    check_target(out, force, ANALYSIS)
    for module in ("jinja2", "matplotlib"):
        require("report", module, "pages of analyses")
    terminal.stage(f"loading {bundle} and the FP32 network")
    opened = read_bundle(bundle)
    fp32: Optional[Union[str, Model]] = reference
    if weights is not None or layout is not None:
        manifest = opened.manifest
        usual = "random" if manifest.source.weights == "random" else "pretrained"
        states: StatesKind = "inputs" if manifest.states else "zero"
        loading = Loading(weights or usual, opened.input_shapes, layout, states)
        own = Preprocessing(fit=opened.preprocess.fit if opened.preprocess else None)
        fp32 = load(terminal, reference or manifest.source.network, loading, own)
    with executor_of(terminal, on_cluster) as executor:
        analysis = analyzed(opened, data, fp32, num_samples, terminal.progress, executor)
        terminal.stage(f"writing {out}")
        with terminal.work.writing(out):
            write_analysis(analysis, out, force)
    result = {"bundle": str(bundle), "page": str(out / PAGE), **analysis_json(analysis)}
    terminal.show(result, *_tables(analysis, str(out / PAGE), everything))


def _tables(analysis: Analysis, page: str, everything: bool) -> list[RenderableType]:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("layer", overflow="fold")
    for column in ("own", "weights", "tensors", "network", "cut off"):
        table.add_column(column, justify="right", no_wrap=True)
    shown = analysis.worst if everything else analysis.worst[:_TOP]
    for layer in shown:
        table.add_row(layer.name, *_numbers(layer))
    rest = len(analysis.layers) - len(shown)
    title = Text(f"\n{analysis.network} over {counted(analysis.images, analysis.noun)} of {analysis.data}", "bold")
    agreed = [
        *(f"agreement with FP32: {text}" for text in analysis.agreement.texts),
        f"{100 * analysis.calibration.beyond:.2g} % of all values are cut off",
    ]
    more = [Text(f"and {rest} layers that add less; show them with --all", "dim")] if rest else []
    legend = (
        "signal-to-quantization-noise ratio in dB, smaller is worse: of the layer alone (own), due to its weights, "
        "due to the tensors it reads and writes, and in the network"
    )
    return [
        title,
        *agreed,
        Text(legend, "dim"),
        table,
        *more,
        *(Text.assemble(("finding", "yellow"), f": {text}") for text in analysis.findings),
        f"\n{page}",
    ]


def _numbers(layer: LayerError) -> tuple[str, ...]:
    ratios = (layer.own, layer.weights, layer.tensors, layer.accumulated)
    use = layer.output
    return (
        *("" if ratio is None else "exact" if ratio.sqnr == math.inf else f"{ratio.sqnr:.1f}" for ratio in ratios),
        "" if use is None else f"{100 * use.saturated:.2g} %",
    )
