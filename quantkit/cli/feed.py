"""``quantkit benchmark --test-io``: whether images can be decoded as fast as the network reads them."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, Optional

from quantkit.cli.terminal import Terminal, megabytes, percent

if TYPE_CHECKING:
    from quantkit.cli.networks import Network
    from quantkit.data.preprocess import Preprocess
    from quantkit.evaluation.feed import Feed, Rate

_SECONDS = 20.0

# Stored images whose side is this many times what the network needs are worth shrinking.
_OVERSIZED = 1.5

# Below these shares of what was to be expected, the first reading and the common run are worth a word.
_COLD, _SHARED = 0.8, 0.9


def run_test_io(
    terminal: Terminal,
    network_spec: str,
    data: str,
    batch: int,
    weights: str,
    input_shape: Optional[tuple[int, ...]],
    seconds: float = _SECONDS,
) -> None:
    """Measure how fast the images of ``data`` can be decoded and how fast the network reads them, and show it.

    Raises:
        UserError: the network or the images cannot be used.
        EngineError: the engine cannot run the network.
    """
    from quantkit.cli.networks import open_network
    from quantkit.data.prefetch import default_workers
    from quantkit.data.sources import open_samples
    from quantkit.evaluation.feed import measure_feed

    samples = open_samples(data)
    network = open_network(terminal, network_spec, weights, input_shape)
    terminal.stage(f"decoding {samples.name} for {network_spec}, about {seconds:.0f} s")
    feed = measure_feed(
        network.graph, samples, network.preprocess, network.input_shape, batch, default_workers(), seconds
    )
    result = feed_result(feed, network, samples.name)
    terminal.show(result, *_tables(result))


def feed_result(feed: Feed, network: Network, data: str) -> dict[str, Any]:
    """A measurement as JSON's own types. Rates in images per second, times in ms for one image, shares from 0 to 1."""
    return {
        "network": network.name,
        "kind": network.kind,
        "weights": network.weights,
        "data": data,
        "batch": feed.batch,
        "workers": feed.workers,
        "images": feed.distinct,
        "short_side": feed.images.short_side,
        "decoding_ms": feed.images.decoding,
        "preprocessing_ms": feed.images.preprocessing,
        "images_per_second": {
            "first_pass": feed.first_pass,
            "one_worker": _rate(feed.one_worker),
            "all_workers": _rate(feed.all_workers),
            "network": _rate(feed.network),
            "together": _rate(feed.together),
        },
        "first_pass_bytes_from_storage": feed.from_storage,
        "waiting": feed.waiting,
        "verdict": "starved" if feed.starved else "fed",
        "decoded_per_read": feed.lead,
        "advice": advice(feed, network.preprocess),
    }


def advice(feed: Feed, preprocess: Optional[Preprocess]) -> list[str]:
    """What the figures mean beyond the verdict, and the remedies where the network starves."""
    found = []
    stored = feed.images.short_side
    if feed.from_storage and feed.first_pass < _COLD * min(feed.all_workers.rounds):
        enough = "too few" if feed.first_pass < feed.network.median else "enough"
        found.append(
            f"from storage only {feed.first_pass:.0f} images/s came, {enough} for the network; "
            "many small files are read faster when packed into one .rec file"
        )
    if feed.together.median < _SHARED * min(feed.all_workers.median, feed.network.median):
        found.append(
            f"both at once reach {percent(feed.together.median / feed.network.median)} of the network alone: "
            "they share the cores; give decoding some that the network does not use"
        )
    if feed.starved and stored is not None:
        wanted = ceil(feed.network.median / feed.one_worker.median)
        needed = None if preprocess is None else preprocess.resize or preprocess.crop
        if wanted > feed.workers:
            found.append(f"about {wanted} decoding workers would keep up, each on a core of its own")
        if needed is not None and stored > _OVERSIZED * needed:
            found.append(f"store the images smaller: their short side is {stored} pixels, {needed} are needed")
        found.append("preprocess once: float32 arrays in an .npz need no decoding")
    return found


def _rate(rate: Rate) -> dict[str, Any]:
    return {"median": rate.median, "low": min(rate.rounds), "high": max(rate.rounds), "rounds": list(rate.rounds)}


def _tables(result: dict[str, Any]) -> list[Any]:
    from rich.markup import escape
    from rich.table import Table

    rates = result["images_per_second"]
    kind, batch = result["kind"].upper(), result["batch"]
    workers = f"{result['workers']} workers" if result["workers"] > 1 else "1 worker"
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column, justify in (("", "left"), ("images/s", "right"), ("lowest to highest round", "left")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    stored = result["first_pass_bytes_from_storage"]
    source = "" if stored is None else f"{megabytes(stored)} came from storage" if stored else "the files were cached"
    table.add_row(f"decoding, first reading, {workers}", f"{rates['first_pass']:.0f}", source)
    for label, name in (
        ("decoding again, 1 worker", "one_worker"),
        (f"decoding again, {workers}", "all_workers"),
        (f"{kind} network, batch {batch}", "network"),
        (f"network over decoded images, {workers}", "together"),
    ):
        rate = rates[name]
        table.add_row(label, f"{rate['median']:.0f}", f"{rate['low']:.0f} to {rate['high']:.0f}")
    title = (
        f"\n[bold]{escape(result['network'])} ({kind}) over {result['images']} images of {escape(result['data'])}[/]"
    )
    one = f"one image: decoding {result['decoding_ms']:.2g} ms, preprocessing {result['preprocessing_ms']:.2g} ms"
    waiting = f"the network waited for images {percent(result['waiting'])} of the time"
    return [title, table, f"\n{one}; {waiting}", _verdict(result), *(f"  {escape(each)}" for each in result["advice"])]


def _verdict(result: dict[str, Any]) -> str:
    lead = result["decoded_per_read"]
    if result["verdict"] == "starved":
        return f"[bold red]STARVED[/]: the network could read {1 / lead:.1f} times as many images as can be decoded"
    return f"[bold green]FED[/]: {lead:.1f} times as many images can be decoded as the network reads"
