"""``quantkit evaluate``: accuracy against labels, and agreement with a reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import tee
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.cli.options import Verb, model_options, output_options
from quantkit.cli.terminal import Terminal, percent
from quantkit.errors import DataError, UserError

if TYPE_CHECKING:
    from quantkit.cli.networks import Network
    from quantkit.data.batches import Batch
    from quantkit.data.samples import Samples


@click.command(
    cls=Verb,
    examples=(
        "quantkit evaluate resnet50_v1-int8 --data photos/ --reference resnet50",
        "quantkit evaluate resnet50_v1-int8 --data photos:test --limit 500",
        "quantkit evaluate digits_resnet20_v1 --data digits:test",
    ),
)
@click.argument("network", metavar="BUNDLE|MODEL")
@click.option("--data", required=True, metavar="SPEC", help="Images: a folder, FOLDER:SPLIT, .npz, .rec, digits:test.")
@click.option("--reference", metavar="MODEL|BUNDLE", help="Compare with this network, image by image.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Use the first N images only.")
@click.option("--batch-size", type=click.IntRange(min=1), default=8, show_default=True, metavar="N")
@model_options
@output_options
def evaluate(
    terminal: Terminal,
    network: str,
    data: str,
    reference: Optional[str],
    limit: Optional[int],
    batch_size: int,
    weights: str,
    input_shape: Optional[tuple[int, ...]],
) -> None:
    """Measure accuracy, and agreement with a reference.

    Top-1 and top-5 need labels: a labels.csv in the folder, one folder a class, or `y` in the .npz.
    With --reference, the share of images with the same top-1 and the mean cosine of the outputs need
    none. --weights and --input-shape are for MODELs; a bundle has its own.
    """
    from quantkit.cli.networks import open_network
    from quantkit.data.batches import batches
    from quantkit.data.sources import open_samples

    samples = open_samples(data)
    first = open_network(terminal, network, weights, input_shape)
    networks = [first] if reference is None else [first, open_network(terminal, reference, weights, input_shape)]
    _check_comparable(networks)
    stream = batches(samples, first.preprocess, first.input_shape, batch_size, limit, first.classes)
    counted = terminal.progress(stream, _total(samples, limit, batch_size), f"evaluating on {samples.name}")
    result = {
        "network": network,
        "kind": first.kind,
        "weights": first.weights,
        "reference": reference,
        "data": samples.name,
        **_measured(networks, iter(counted), batch_size),
    }
    terminal.show(result, *_tables(result, first.classes))


def _check_comparable(networks: Sequence[Network]) -> None:
    for other in networks[1:]:
        for what, one, two in (
            ("inputs of shape", networks[0].input_shape, other.input_shape),
            ("outputs of size", networks[0].classes, other.classes),
        ):
            if one != two:
                raise UserError(
                    f"{networks[0].name} has {what} {one}, its reference {other.name} {two}; "
                    "give the network that it was made from"
                )


def _total(samples: Samples, limit: Optional[int], batch_size: int) -> int:
    known = [count for count in (samples.size, limit) if count is not None]
    return -(-min(known, default=0) // batch_size)


def _measured(networks: Sequence[Network], stream: Iterator[Batch], batch_size: int) -> dict[str, Any]:
    """Run all networks batch by batch and average what each batch says, weighted by its images."""
    from quantkit.engine.stream import outputs_of
    from quantkit.evaluation.accuracy import accuracy
    from quantkit.evaluation.agreement import agreement

    accuracies: list[list[Any]] = [[] for _ in networks]
    agreements: list[Any] = []
    copies = tee(stream, len(networks) + 1)
    inputs = [(batch.data for batch in copy) for copy in copies[1:]]
    runs = [outputs_of(network.graph, data, batch_size) for network, data in zip(networks, inputs)]
    for batch, *outputs in zip(copies[0], *runs):
        if batch.labels is not None:
            for parts, output in zip(accuracies, outputs):
                parts.append(accuracy([(output[0], batch.labels)]))
        elif len(networks) == 1:
            raise DataError("the data have no labels, so there is no accuracy to measure; give labels or a --reference")
        if len(networks) == 2:
            agreements.append(agreement([(outputs[1][0], outputs[0][0])]))
    return {
        "images": sum(part.images for part in accuracies[0] or agreements),
        "accuracy": _means(accuracies[0], "top1", "top5"),
        "reference_accuracy": _means(accuracies[-1], "top1", "top5") if len(networks) == 2 else None,
        "agreement": _means(agreements, "top1", "cosine"),
    }


def _means(parts: Sequence[Any], *names: str) -> Optional[dict[str, float]]:
    images = sum(part.images for part in parts)
    if not images:
        return None
    return {name: sum(part.images * getattr(part, name) for part in parts) / images for name in names}


def _tables(result: dict[str, Any], classes: int) -> list[Any]:
    from rich.markup import escape

    from quantkit.cli.summary import agreement_text, grid_of

    rows = [("images", f"{result['images']} of {result['data']}")]
    for label, key in (("accuracy", "accuracy"), ("reference", "reference_accuracy")):
        if result[key] is not None:
            top5 = f", top-5 {percent(result[key]['top5'])}" if classes > 5 else ""
            rows.append((label, f"top-1 {percent(result[key]['top1'])}{top5}"))
    if result["agreement"] is not None:
        rows.append(("agreement", agreement_text(result["agreement"])))
    if result["weights"] == "random":
        rows.append(("weights", "RANDOM: accuracy means nothing"))
    against = f" against {escape(result['reference'])}" if result["reference"] else ""
    return [f"\n[bold]{escape(result['network'])} ({result['kind'].upper()}){against}[/]", grid_of(rows)]
