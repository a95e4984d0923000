"""``quantkit evaluate``: accuracy against labels, agreement with a reference, and what of it is more than chance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import tee
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.cli.option_groups import Loading
from quantkit.cli.options import Verb, collected, output_options
from quantkit.cli.terminal import Terminal
from quantkit.errors import DataError, UserError
from quantkit.units import percent

if TYPE_CHECKING:
    import numpy as np

    from quantkit.data.batches import Batch
    from quantkit.data.samples import Samples
    from quantkit.evaluation.network import Network


@click.command(
    cls=Verb,
    examples=(
        "quantkit evaluate resnet50_v1-int8 --data photos/ --reference resnet50",
        "quantkit evaluate resnet50_v1-int8 --data photos:test --limit 500",
        "quantkit evaluate best-int8 --against fast-int8 --data photos/ --reference resnet50",
        "quantkit evaluate digits_resnet20_v1 --data digits:test",
    ),
)
@click.argument("network", metavar="BUNDLE|MODEL")
@click.option("--data", required=True, metavar="SPEC", help="Images: a folder, FOLDER:SPLIT, .npz, .rec, digits:test.")
@click.option("--reference", metavar="MODEL|BUNDLE", help="Compare with this network, image by image.")
@click.option(
    "--against",
    metavar="BUNDLE|MODEL",
    help="Tell which of the two is better: agrees more often with the reference, and with labels.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Use the first N images only.")
@click.option("--batch-size", type=click.IntRange(min=1), default=8, show_default=True, metavar="N")
@collected("loading", Loading)
@output_options
def evaluate(
    terminal: Terminal,
    network: str,
    data: str,
    reference: Optional[str],
    against: Optional[str],
    limit: Optional[int],
    batch_size: int,
    loading: Loading,
) -> None:
    """Measure accuracy, and agreement with a reference.

    Top-1 and top-5 need labels: a labels.csv in the folder, one folder a class, or `y` in the .npz.
    With --reference, the share of images with the same top-1 and the mean cosine of the outputs need
    none. Differences come with the p-value of McNemar's test over the images, a 95 % interval, and a verdict.
    --weights and --input-shape are for MODELs; a bundle has its own.
    """
    from quantkit.cli.networks import open_network
    from quantkit.data.batches import batches
    from quantkit.data.sources import open_samples

    samples = open_samples(data)
    named = {"network": network, "reference": reference, "against": against}
    networks = {role: open_network(terminal, spec, loading) for role, spec in named.items() if spec is not None}
    first = networks["network"]
    _check_comparable(networks)
    stream = batches(samples, first.preprocess, first.input_shape, batch_size, limit, first.classes)
    counted = terminal.progress(stream, _total(samples, limit, batch_size), f"evaluating on {samples.name}")
    result = {
        **named,
        "kind": first.kind,
        "weights": first.weights,
        "data": samples.name,
        **_measured(networks, iter(counted), batch_size),
    }
    terminal.show(result, *_tables(result, first.classes))


def _check_comparable(networks: Mapping[str, Network]) -> None:
    first = networks["network"]
    for role, other in networks.items():
        for what, one, two in (
            ("inputs of shape", first.input_shape, other.input_shape),
            ("outputs of size", first.classes, other.classes),
        ):
            if one != two:
                remedy = (
                    "give the network that it was made from" if role == "reference" else "give a form of the same one"
                )
                whose = "its reference" if role == "reference" else "the other network"
                raise UserError(f"{first.name} has {what} {one}, {whose} {other.name} {two}; {remedy}")
        if other.weights == "random" != first.weights:
            raise UserError(
                f"{other.name} has random weights here, so {first.name} would be compared with a network that was "
                "never trained; give its weights with --weights FILE, or the checkpoint or card that was quantized"
            )


def _total(samples: Samples, limit: Optional[int], batch_size: int) -> int:
    known = [count for count in (samples.size, limit) if count is not None]
    return -(-min(known, default=0) // batch_size)


def _measured(networks: Mapping[str, Network], stream: Iterator[Batch], batch_size: int) -> dict[str, Any]:
    """Run all networks batch by batch; keep what each image says, and sum it up."""
    import numpy as np

    from quantkit.engine.stream import outputs_of
    from quantkit.evaluation.accuracy import hits
    from quantkit.evaluation.agreement import cosines, same_top1

    found: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
    images = 0
    copies = tee(stream, len(networks) + 1)
    inputs = [(batch.data for batch in copy) for copy in copies[1:]]
    runs = [outputs_of(network.graph, data, batch_size) for network, data in zip(networks.values(), inputs)]
    for batch, *results in zip(copies[0], *runs):
        outputs = {role: result[0] for role, result in zip(networks, results)}
        images += len(batch.data)
        if batch.labels is None and "reference" not in networks:
            raise DataError("the data have no labels, so there is no accuracy to measure; give labels or a --reference")
        for role, output in outputs.items():
            if batch.labels is not None:
                found[role, "top1"].append(hits(output, batch.labels))
                found[role, "top5"].append(hits(output, batch.labels, 5))
            if "reference" in networks and role != "reference":
                found[role, "same"].append(same_top1(outputs["reference"], output))
                found[role, "cosine"].append(cosines(outputs["reference"], output))
    values = {key: np.concatenate(parts) for key, parts in found.items()}
    return {"images": images, **_shares(values), "comparisons": _comparisons(values)}


def _shares(values: Mapping[tuple[str, str], np.ndarray]) -> dict[str, Any]:
    """Accuracies and agreements; None for those that nothing was given for."""

    def means(role: str, **names: str) -> Optional[dict[str, float]]:
        if any((role, name) not in values for name in names.values()):
            return None
        return {key: float(values[role, name].mean()) for key, name in names.items()}

    return {
        "accuracy": means("network", top1="top1", top5="top5"),
        "reference_accuracy": means("reference", top1="top1", top5="top5"),
        "against_accuracy": means("against", top1="top1", top5="top5"),
        "agreement": means("network", top1="same", cosine="cosine"),
        "against_agreement": means("against", top1="same", cosine="cosine"),
    }


def _comparisons(values: Mapping[tuple[str, str], np.ndarray]) -> list[dict[str, Any]]:
    """The network paired with each other one, by accuracy and by agreement with the reference."""
    from quantkit.evaluation.paired import paired

    pairs = [("accuracy", "reference", "top1"), ("accuracy", "against", "top1"), ("agreement", "against", "same")]
    found = [
        (measure, other, paired(values["network", name], values[other, name]))
        for measure, other, name in pairs
        if (other, name) in values
    ]
    return [
        {"measure": measure, "with": other, **asdict(each), "verdict": each.verdict} for measure, other, each in found
    ]


def _tables(result: dict[str, Any], classes: int) -> list[Any]:
    from rich.text import Text

    from quantkit.cli.summary import agreement_text, grid_of

    rows = [("images", f"{result['images']} of {result['data']}")]
    for label, key in (("accuracy", "accuracy"), ("reference", "reference_accuracy"), ("other", "against_accuracy")):
        if result[key] is not None:
            top5 = f", top-5 {percent(result[key]['top5'])}" if classes > 5 else ""
            rows.append((label, f"top-1 {percent(result[key]['top1'])}{top5}"))
    for label, key in (("agreement", "agreement"), ("of other", "against_agreement")):
        if result[key] is not None:
            rows.append((label, agreement_text(result[key])))
    rows += [_comparison_row(each) for each in result["comparisons"]]
    if result["weights"] == "random":
        rows.append(("weights", "RANDOM: accuracy means nothing"))
    others = [result[role] for role in ("reference", "against") if result[role]]
    against = f" against {' and '.join(others)}" if others else ""
    return [Text(f"\n{result['network']} ({result['kind'].upper()}){against}", "bold"), grid_of(rows)]


def _comparison_row(found: Mapping[str, Any]) -> tuple[str, str]:
    """The label and the text of a paired comparison."""
    points, low, high = (100 * found[name] for name in ("difference", "low", "high"))
    return (
        "to reference" if found["with"] == "reference" else "to other",
        f"{found['measure']} {points:+.2f} points [{low:+.2f}, {high:+.2f}]: {found['verdict']}\n"
        f"{found['first_only']} images won, {found['other_only']} lost; McNemar p = {found['p_value']:.2g}",
    )
