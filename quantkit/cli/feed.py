"""``quantkit benchmark --test-io``: whether images can be decoded as fast as the network reads them."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from quantkit.cli.networks import Network, load, open_network
from quantkit.cli.targets import is_bundle
from quantkit.cli.terminal import Terminal, megabytes, percent
from quantkit.host.load import Load, load_between, read_ticks

if TYPE_CHECKING:
    from quantkit.data.preprocess import Preprocess
    from quantkit.data.samples import Samples
    from quantkit.evaluation.feed import Feed, Rate

_STAT = Path("/proc/stat")

_SECONDS = 20.0

# Stored images whose side is this many times what the network needs are worth shrinking.
_OVERSIZED = 1.5

# Below these shares of what each reaches alone, the first reading and the common run are worth a word.
_COLD, _TOGETHER = 0.8, 0.9


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

    A bundle is measured as it is; of any other network the INT8 form, calibrated with ``data``.

    Raises:
        UserError: the network or the images cannot be used.
        EngineError: the engine cannot run the network.
        QuantkitError: the network cannot be quantized.
    """
    from quantkit.data.prefetch import default_workers
    from quantkit.data.sources import open_samples
    from quantkit.evaluation.feed import measure_feed

    samples = open_samples(data)
    if is_bundle(network_spec):
        form, network = "bundle", open_network(terminal, network_spec, weights, input_shape)
    else:
        form, network = "quantized", quantized(terminal, network_spec, weights, input_shape, samples)
    terminal.stage(f"decoding {samples.name} for {network.name} ({network.kind.upper()}), about {seconds:.0f} s")
    begun, before, own = time.monotonic(), read_ticks(_STAT), time.process_time()
    feed = measure_feed(
        network.graph, samples, network.preprocess, network.input_shape, batch, default_workers(), seconds
    )
    elapsed, own = time.monotonic() - begun, time.process_time() - own
    load = load_between(before, read_ticks(_STAT), os.sched_getaffinity(0), elapsed)
    others = None if load is None else replace(load, busy=load.busy - load.stolen - own / elapsed)
    result = feed_result(feed, network, samples.name, form, others)
    terminal.show(result, *_tables(result))


def quantized(
    terminal: Terminal, spec: str, weights: str, input_shape: Optional[tuple[int, ...]], samples: Samples
) -> Network:
    """The INT8 form of an FP32 network, made as the benchmark makes it and kept where it keeps them.

    Raises:
        UserError: there is no such network, or it cannot be used.
        DataError: the samples cannot be used to calibrate with.
        EngineMissing: no engine here runs INT8 networks.
        QuantkitError: the network cannot be quantized.
    """
    from quantkit.engine.build import check_int8
    from quantkit.engine.checkpoint import read_checkpoint
    from quantkit.workloads.forms import Forms

    check_int8()
    model = load(terminal, spec, weights, input_shape)
    made = Forms(model, samples, terminal.tell).stored("int8").checkpoint.files
    graph = read_checkpoint(made["symbol"], made["params"])
    return Network(model.name, "int8", graph, model.input_shape, model.preprocess, model.source.weights)


def feed_result(feed: Feed, network: Network, data: str, form: str, others: Optional[Load]) -> dict[str, Any]:
    """A measurement as JSON's own types. Rates in images per second, times in ms for one image, shares from 0 to 1.

    ``form`` is what was measured: a ``bundle`` as it is, or a network ``quantized`` for this. ``others`` is what
    other processes and the hypervisor took meanwhile, in cores, None where the system does not tell.
    """
    from quantkit.benchmark.cell_warnings import UNTOLD, disturbing

    return {
        "network": network.name,
        "form": form,
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
        "verdict": feed.verdict,
        "decoded_per_read": feed.lead,
        "advice": advice(feed, network.preprocess),
        "warnings": [UNTOLD] if others is None else list(disturbing(others.stolen, others.busy)),
    }


def advice(feed: Feed, preprocess: Optional[Preprocess]) -> list[str]:
    """What the figures mean beyond the verdict, and the remedies where the network starves."""
    found = []
    stored = feed.images.short_side
    if feed.from_storage and feed.first_pass < _COLD * min(feed.all_workers.rounds):
        enough = "too few" if feed.first_pass < min(feed.network.rounds) else "enough"
        found.append(
            f"the first reading, with {megabytes(feed.from_storage)} from storage, gave {feed.first_pass:.0f} "
            f"images/s, {enough} for the network; cached files gave {feed.all_workers.median:.0f}; where the images "
            "are many small files, try them packed into one .rec file"
        )
    slower = min(feed.all_workers.median, feed.network.median)
    if feed.together.median < _TOGETHER * slower:
        longer = feed.network.median * (1 - feed.waiting) / feed.together.median
        found.append(
            f"both at once reach {percent(feed.together.median / slower)} of what the slower one reaches alone: the "
            f"network waited for images {percent(feed.waiting)} of the time, and its runs took {longer:.2g} times as "
            "long as alone; whether they compete for cores shows when the network gets fewer threads: set "
            "OMP_NUM_THREADS and measure again"
        )
    if feed.verdict == "starved" and stored is not None:
        wanted = ceil(feed.network.median / feed.one_worker.median)
        needed = None if preprocess is None else preprocess.resize or preprocess.crop
        if wanted > feed.workers:
            found.append(
                f"at least {wanted} decoding workers would have to run at once, each as fast as one alone, to keep up"
            )
        if needed is not None and stored > _OVERSIZED * needed:
            found.append(f"store the images smaller: their short side is {stored} pixels, {needed} are needed")
        found.append("preprocess once: float32 arrays in an .npz need no decoding")
    return found


def _rate(rate: Rate) -> dict[str, Any]:
    return {"median": rate.median, "low": min(rate.rounds), "high": max(rate.rounds), "rounds": list(rate.rounds)}


def _tables(result: dict[str, Any]) -> list[Any]:
    from rich.table import Table
    from rich.text import Text

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
    measured = f"{kind} bundle" if result["form"] == "bundle" else f"quantized to {kind} for this"
    images = f"{result['images']} images of {result['data']}"
    title = Text(f"\n{result['network']} ({measured}) over {images}", "bold")
    one = f"one image: decoding {result['decoding_ms']:.2g} ms, preprocessing {result['preprocessing_ms']:.2g} ms"
    waiting = f"the network waited for images {percent(result['waiting'])} of the time"
    advised = (f"  {each}" for each in result["advice"])
    warned = (Text.assemble(("warning", "yellow"), f": {each}") for each in result["warnings"])
    return [title, table, f"\n{one}; {waiting}", _verdict(result), *advised, *warned]


def _verdict(result: dict[str, Any]) -> Any:
    from rich.text import Text

    lead, verdict = result["decoded_per_read"], result["verdict"]
    if verdict == "not distinguishable":
        word, style = "NOT DISTINGUISHABLE", "bold yellow"
        why = "the rounds of decoding and those of the network overlap; measure again when nothing else runs"
    elif verdict == "starved":
        word, style = "STARVED", "bold red"
        why = f"the network could read {1 / lead:.1f} times as many images as can be decoded"
    else:
        word, style = "FED", "bold green"
        why = f"{lead:.1f} times as many images can be decoded as the network reads"
    return Text.assemble((word, style), f": {why}")
